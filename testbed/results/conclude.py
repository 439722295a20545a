"""The conclusion of a finished run: oracle, accounting, summary, report."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captures.rundir import RunLayout
from captures.rundir.capture_list import SMALL_BYTES, captured_bytes
from captures.rundir.clock import read_clock
from captures.rundir.inputs import MANIFEST, clock_error_s
from captures.rundir.measures import TIMINGS
from captures.rundir.oracle import ORACLE
from captures.rundir.summary import SUMMARY
from router.protocol.options import SERVICES
from testbed.controller.trees import LAYERS, hops_on_trees
from testbed.experiments.config import Experiment
from testbed.experiments.config.load import load_experiment
from testbed.experiments.events import Register
from testbed.experiments.events.network import at_worst
from testbed.results.oracle.attention.judge import write_judgement
from testbed.results.oracle.connectivity import HopLimit
from testbed.results.oracle.decide import judge
from testbed.results.oracle.history import read_history
from testbed.support.errors import InputError, naming_a_full_disk
from testbed.terminal.progress import Progress
from testbed.terminal.summary import ENGINES, WHY_SPARK, print_summary

if TYPE_CHECKING:
    from captures.spark.session import Session


def conclude(
    run_dir: Path, master: str, progress: Progress, engine: str = "spark", spark: Session | None = None
) -> int:
    """Judges and accounts for a run, writes the report, prints the summary; arguments of `account_run`.

    Returns:
        0 if the verdict holds, 1 if it fails, 4 if the run is invalid.
    """
    from captures.accounting.verdict import FAILS, HOLDS, INVALID

    with naming_a_full_disk(run_dir):
        summary, report = report_run(run_dir, master, progress, engine, spark)
    progress.console.print()
    print_summary(progress.console, summary, report)
    return {HOLDS: 0, FAILS: 1, INVALID: 4}[summary["verdict"]]


def report_run(
    run_dir: Path, master: str, progress: Progress, engine: str = "spark", spark: Session | None = None
) -> tuple[dict[str, Any], Path]:
    """Does as `account_run`, and writes the report; returns the summary and the path of the report."""
    from testbed.results.report.render import write_report

    summary = account_run(run_dir, master, progress, engine, spark)
    with progress.stage("report_s", "report"):
        return summary, write_report(run_dir)


def account_run(
    run_dir: Path, master: str, progress: Progress, engine: str = "spark", spark: Session | None = None
) -> dict[str, Any]:
    """Writes the oracle's answers, the tables and the summary; returns the summary.

    Args:
        engine: `spark`, or `duckdb`, which needs no start.
        spark: a session of `captures.spark.session`; None: a new session.

    Raises:
        RunFolderError: the run folder is incomplete or malformed.
        InputError: a capture is malformed, another process accounts for the run, or its captures are too
            large for the engine.
        SessionError: Spark does not start, or ends by itself.
    """
    # pyarrow and Spark take seconds to load.
    from captures.accounting.account import TooLargeError, account, account_directly
    from captures.pcap import PcapError
    from captures.tables.store import BusyError

    run = RunLayout(run_dir)
    experiment = load_experiment(run.experiment)
    first = of_the_run(experiment, run)

    def publish(accounted: dict[str, Any]) -> None:
        SUMMARY.write(run, {**first, **accounted})

    with progress.stage("oracle_s", "oracle"):
        judge_run(run, experiment)
    if engine == "spark" and captured_bytes(run) < SMALL_BYTES:
        progress.note(WHY_SPARK)
    with progress.stage("accounting_s", f"accounting on {ENGINES[engine]}"):
        try:
            if engine == "duckdb":
                accounted = account_directly(run_dir, publish, progress)
            else:
                accounted = account(run_dir, master=master, spark=spark, publish=publish, progress=progress)
        except (PcapError, BusyError, TooLargeError) as error:
            raise InputError(str(error)) from error
    return {**first, **accounted}


def of_the_run(experiment: Experiment, run: RunLayout) -> dict[str, Any]:
    """Returns the keys of the summary that the runner provides (captures.rundir.summary documents all
    keys)."""
    manifest = MANIFEST.read(run)
    # The last file of a complete emulation is read first, so that other folders are refused at once.
    timings = TIMINGS.read(run)
    return {
        "experiment": experiment.name,
        "routers": len(experiment.topology.nodes),
        "links": len(experiment.topology.links),
        "duration_s": experiment.duration_s,
        "datapath": manifest["datapath"],
        **{key: round(value, 3) for key, value in timings.items()},
    }


def judge_run(run: RunLayout, experiment: Experiment) -> None:
    """Judges a finished run and writes the answers into its folder.

    Raises:
        RunFolderError: a file of the run folder is missing or malformed.
        InputError: a predicate or a message is malformed.
    """
    window_s = experiment.oracle.in_flight_window_s + clock_error_s(MANIFEST.read(run))
    ORACLE.write(run, judge(read_history(run, hop_limit_of(experiment)), window_s))
    if not SERVICES[experiment.service.kind].keeps_records:
        return
    # The routers of this service send no messages, so the file above is empty.
    write_judgement(
        run,
        LAYERS[experiment.broadcast.layer](experiment.topology, frozenset(), frozenset()),
        experiment.duration_s,
        window_s,
        starvation_expected(experiment, max(read_clock(run).rates)),
    )


def hop_limit_of(experiment: Experiment) -> HopLimit | None:
    """Returns the hop limit of an experiment's messages, for the oracle; None: it is enough for all paths."""
    topology, most = experiment.topology, experiment.protocol.hop_limit
    if most >= len(topology.nodes) - 1:  # a path visits each node once
        return None
    layer = LAYERS[experiment.broadcast.layer]
    return lambda u, v, *down: bool(hops_on_trees(topology, layer, *down)[u, v] <= most)


def starvation_expected(experiment: Experiment, rate: float) -> str | None:
    """Returns why subscriptions may starve in an experiment without a fault of the routers, or None.

    Args:
        rate: greatest rate of the experiment clock, experiment seconds in a wall second.
    """
    links = at_worst(experiment.topology, experiment.events).links
    for link in links:
        if link.loss_percent:
            return f"link {link.u}-{link.v} loses frames"
        if link.bandwidth_mbps:
            return f"link {link.u}-{link.v} has a bandwidth: its queue may drop frames"
    options = experiment.service.of_kind
    if options.pace_mbps is not None:
        return "routers pace their interfaces: publications wait, and a full queue drops them"
    if options.fan_out == "divided":
        return "SUBs ask each child for a share: a child may have less, and others more"
    # A sequential SUB crosses each link of the tree down and back; halfway to the deadline it is repeated.
    walk_s = 2 * (len(experiment.topology.nodes) - 1) * rate
    walk_s *= max((link.delay_ms or 0.0 for link in links), default=0.0) / 1e3
    lifetimes_s = [event.lifetime_s for event in experiment.events if isinstance(event, Register)]
    if (drawn := experiment.attention) is not None:
        lifetimes_s.append(drawn.lifetime_s if drawn.draw == "constant" else 0.0)
    if options.fan_out == "sequential" and walk_s > min(lifetimes_s, default=inf) / 2:
        return f"a sequential SUB may be under way for {walk_s:g} s, more than half a lifetime"
    # A publication is sent `beta_s` before the first deadline, and must arrive before that.
    if options.strategy == "pdp" and options.beta_s < experiment.oracle.in_flight_window_s * rate:
        return "beta_s is below the time for which a frame may be under way (in_flight_window_s)"
    return None
