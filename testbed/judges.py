"""The oracle's answers about a finished run, by the service that its routers offered."""

from __future__ import annotations

from collections.abc import Callable

from captures.rundir.clock import read_clock
from captures.rundir.layout import RunLayout
from router.registry import Registry
from testbed.config.hop_limit import hop_limit_of
from testbed.config.model import Experiment
from testbed.controller.trees import LAYERS
from testbed.events.links import at_worst
from testbed.oracle.attention.judge import write_judgement
from testbed.oracle.decide import write_oracle

#: Writes the answers of the oracle into a run folder.
Judge = Callable[[RunLayout, Experiment], None]
#: By the names of services. Of the others, messages and predicates are judged.
JUDGES: Registry[Judge] = Registry("service with an oracle")


def judge_run(run: RunLayout, experiment: Experiment) -> None:
    """Judges a finished run and writes the answers into its folder.

    Raises:
        RunFolderError: a file of the run folder is missing or malformed.
        InputError: a predicate or a message is malformed.
    """
    JUDGES.get(experiment.service.kind, judge_messages)(run, experiment)


def judge_messages(run: RunLayout, experiment: Experiment) -> None:
    """Judges the deliveries of messages to applications whose predicates select the messages."""
    write_oracle(run, experiment.oracle.in_flight_window_s, hop_limit_of(experiment))


def judge_subscriptions(run: RunLayout, experiment: Experiment) -> None:
    """Judges the deliveries of publications to attention-limited subscriptions."""
    # The routers of this service send no messages: the file of the oracle is there and empty.
    judge_messages(run, experiment)
    topology = experiment.topology
    write_judgement(
        run,
        LAYERS[experiment.broadcast.layer](topology, frozenset(), frozenset()),
        len(topology.nodes),
        experiment.duration_s,
        experiment.oracle.in_flight_window_s,
        starvation_expected(experiment, max(read_clock(run).rates)),
    )


def starvation_expected(experiment: Experiment, rate: float) -> str | None:
    """Returns why subscriptions may starve in an experiment without a fault of the routers, or None.

    Args:
        rate: greatest rate of the experiment clock, experiment seconds in a wall second.
    """
    for link in at_worst(experiment.topology, experiment.events).links:
        if link.loss_percent:
            return f"link {link.u}-{link.v} loses frames"
        if link.bandwidth_mbps:
            return f"link {link.u}-{link.v} has a bandwidth: its queue may drop frames"
    options = experiment.service.of_kind
    if options.pace_mbps is not None:
        return "routers pace their interfaces: publications wait, and a full queue drops them"
    if options.fan_out == "divided":
        return "SUBs ask each child for a share: a child may have less, and others more"
    # A publication is sent `beta_s` before the first deadline, and must arrive before that.
    if options.strategy == "pdp" and options.beta_s < experiment.oracle.in_flight_window_s * rate:
        return "beta_s is below the time for which a frame may be under way (in_flight_window_s)"
    return None


JUDGES.register("exhaustive", judge_messages)
JUDGES.register("attention", judge_subscriptions)
