"""Estimates, before an emulation starts, how much it will cost the machine.

The work of a run is that of its frames. A message takes a hop for each link of the tree that joins its sender
to the receivers that want it; an RA goes to every router, as long as no other covers it.
What a hop costs was measured in emulations (`./run.sh bench emulated_hops`), on a machine that does
`_REFERENCE_LOOPS` loops of Python a second; a measurement of this machine scales it.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from router.predicates import Message, matches
from router.predicates.parser import parse_predicate
from router.protocol.options import SERVICES
from testbed.controller.trees import LAYERS, hops_on_trees
from testbed.experiments.config import AUTO, RATE_MAX, Experiment
from testbed.experiments.events import Place
from testbed.experiments.workload import Item, Workload
from testbed.experiments.workload.attention_predictions import Fluid

#: CPU seconds of a message that crosses a link, with its share of deliveries: routers, Open vSwitch,
#: captures, kernel and applications together, as `./run.sh bench emulated_hops` prints them (*machine*;
#: 2026-11-25). Of an RA: as much, with the time of the core in place of that of compiled code.
_MESSAGE_S, _RA_S = 345e-6, 400e-6
#: Loops of `_slowness` in a second on the machine on which they were measured.
_REFERENCE_LOOPS = 38_000.0
_CALIBRATION_S = 0.2
#: Share of the processors' time up to which nothing is late.
_BUSY = 0.5
#: Messages that are matched against predicates; more say nothing new.
_SAMPLE = 200


@dataclass(frozen=True)
class Estimate:
    """The estimated work of an emulation.

    Attributes:
        message_hops: messages, or publications, over links, per experiment second.
        ra_hops: RAs, or SUBs and OVERLOADs, over links, per experiment second, after the opening.
        opening_hops: RAs over links in the opening.
        opening_s: wall seconds until the predicates of second 0 have spread.
        rate: the greatest rate of the experiment clock at which nothing is late.
        kinds: of the frames of `message_hops` and `ra_hops`.
        publications: uploads of the attention-limited service.
    """

    message_hops: float
    ra_hops: float
    opening_hops: float
    opening_s: float
    rate: float
    kinds: tuple[str, str] = ("messages", "RAs")
    publications: int = 0

    def describe(self) -> str:
        data, control = self.kinds
        return (
            f"{self.message_hops:.3g} {data} and {self.ra_hops:.3g} {control} over links per experiment "
            f"second: a time scale of about {_two_digits(self.rate)} at most; "
            f"{self.opening_s:.2g} s for the opening"
        )

    def warning(self, experiment: Experiment) -> str | None:
        """Returns the advice for an experiment that asks for more than the machine can, or None."""
        scale = experiment.time_scale
        if scale == AUTO or scale <= self.rate:
            return None
        return (
            f"time_scale {scale:g} is more than this machine keeps up with now, and an emulation would be "
            f'invalid; expected at most {_two_digits(self.rate)}, or "auto"'
        )


def estimate(experiment: Experiment, workload: Workload) -> Estimate:
    """Estimates the work of an emulation."""
    if not SERVICES[experiment.service.kind].sends_messages:
        return _of_publications(experiment, workload)
    topology = experiment.topology
    cpus = len(os.sched_getaffinity(0))
    slow = _slowness()
    opening = [item for item in workload.items if item.at_s <= 0 and item.action == "set_predicate"]
    changes = sum(item.attributes is None for item in workload.items) - len(opening)
    messages = [item for item in workload.items if item.attributes is not None]
    # An RA crosses every link of a tree once.
    links = max(0, len(topology.nodes) - 1)
    first: dict[Place, Item] = {}
    for item in workload.items:
        if item.action == "set_predicate":
            first.setdefault(item.place, item)
    message_hops = len(messages) * _hops(experiment, list(first.values()), messages) / experiment.duration_s
    ra_hops = changes * links / experiment.duration_s
    return Estimate(
        message_hops,
        ra_hops,
        opening_hops=float(len(opening) * links),
        opening_s=slow * len(opening) * links * _RA_S / cpus,
        rate=_rate(slow * (message_hops * _MESSAGE_S + ra_hops * _RA_S)),
    )


def _of_publications(experiment: Experiment, workload: Workload) -> Estimate:
    """Estimates the work of the attention-limited service, whose frames the core handles as it does RAs.

    With [workload.attention], each delivery of the fluid model crosses the mean length of a path, and each
    renewal leaves a router through every child and goes on to the routers whose publications it needs. Of
    `diallo-small` with PDP, 12,141 publications over links are estimated and 11,659 counted, but of SUBs only
    half: 885 and 1,803 (`cbcb simulate diallo-small --set service.strategy=pdp --captures none --engine
    duckdb`). With other workloads, every publication and every SUB goes to all routers.
    """
    topology, service = experiment.topology, experiment.service.of_kind
    nodes = len(topology.nodes)
    if (options := experiment.attention) is not None:
        fluid = Fluid(options, nodes, experiment.duration_s, service.cache_publications)
        layer = LAYERS[experiment.broadcast.layer]
        path = float(hops_on_trees(topology, layer, frozenset(), frozenset()).mean())
        # Of 3,200 nodes it has 41 MB, for which a run has no further use.
        hops_on_trees.cache_clear()
        uploads = options.publications
        publications = min(fluid.limited_deliveries(), fluid.exhaustive_deliveries()) * path
        notified = 2 if service.strategy == "eon" else 1
        subscriptions = notified * fluid.renewals * (2 * len(topology.links) / nodes + fluid.visited())
    else:
        actions = Counter(item.action for item in workload.items)
        uploads = actions["publish"]
        publications = uploads * (nodes - 1.0)
        subscriptions = (actions["register"] + actions["refresh"]) * (nodes - 1.0)
    slow = _slowness()
    return Estimate(
        publications / experiment.duration_s,
        subscriptions / experiment.duration_s,
        opening_hops=0.0,
        opening_s=0.0,
        rate=_rate(slow * (publications + subscriptions) / experiment.duration_s * _RA_S),
        kinds=("publications", "subscriptions and notifications"),
        publications=uploads,
    )


def _rate(cpu_s: float) -> float:
    """The greatest rate, where an experiment second takes so much time of a processor."""
    return _BUSY * len(os.sched_getaffinity(0)) / cpu_s if cpu_s else float("inf")


def _two_digits(rate: float) -> str:
    """A rate with two significant digits, without an exponent."""
    shown = min(rate, RATE_MAX)
    return f"{float(f'{shown:.2g}'):.10g}"


def _hops(experiment: Experiment, opening: Sequence[Item], messages: Sequence[Item]) -> float:
    """The mean number of links that a message crosses to the receivers whose first predicate selects it."""
    sample = messages[:: max(1, len(messages) // _SAMPLE)]
    wanted = [(item.node, parse_predicate(item.predicate or "")) for item in opening]
    trees = LAYERS[experiment.broadcast.layer](experiment.topology, frozenset(), frozenset()).parents
    total = 0
    for item in sample:
        parents, reached = trees[item.node].tolist(), {item.node}
        message = Message(item.attributes or {})
        for node, predicate in wanted:
            if matches(predicate, message):
                while node not in reached:
                    reached.add(node)
                    node = parents[node]
        total += len(reached) - 1
    return total / len(sample) if sample else 0.0


def _slowness() -> float:
    """The time that this machine takes, with what else it does, over that of the measured constants."""
    loops = 0
    table = {number: (number, number + 1) for number in range(64)}
    deadline = time.perf_counter() + _CALIBRATION_S
    while time.perf_counter() < deadline:
        for number in range(200):
            pair = table[number & 63]
            bytes(pair[0] + pair[1]).find(b"x")
        loops += 1
    return _REFERENCE_LOOPS / (loops / _CALIBRATION_S)
