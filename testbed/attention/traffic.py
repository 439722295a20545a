"""The traffic of the attention-limited service, estimated before a run by the fluid model and the topology.

A SUB leaves through every child of its router with what is lacking. It goes on as long as the routers on its
path together have fewer pending publications of its event than `max`; each of them sends what it has. As in
the fluid model (`testbed.attention.fluid`), a first registration is served by the cache of its home.

SUBs and publications of `diallo-small` with PDP crossed 1,803 and 11,659 links, by
`cbcb simulate diallo-small --set service.strategy=pdp --captures none --engine duckdb`; the estimates are
1,136 and 4,160, by `cbcb check diallo-small --set service.strategy=pdp`, in 200 s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.attention.fluid import Fluid
from testbed.experiments.config.model import Experiment
from topos.model import Topology

#: Routers from which distances are counted; more say nothing new.
_SAMPLE = 100


@dataclass(frozen=True)
class Traffic:
    """Crossings of links in an experiment, by frames with publications, and by SUBs and OVERLOADs."""

    publications: float
    subscriptions: float


def traffic_of_table_1(experiment: Experiment) -> Traffic:
    """Estimates the traffic of [workload.attention].

    Raises:
        ValueError: the experiment has no such section.
    """
    options, service = experiment.attention, experiment.service.of_kind
    if options is None:
        raise ValueError(f"{experiment.name}: no section [workload.attention]")
    nodes = len(experiment.topology.nodes)
    fluid = Fluid(options, nodes, experiment.duration_s, service.cache_publications)
    shells = _shells(experiment.topology)
    pulled = visited = 0.0
    for share in fluid.shares:
        pending = _mean_fill(options.publications / nodes, service.cache_publications) * share
        for hops, routers in enumerate(shells):
            lacking = options.max - hops * pending
            if hops and lacking > 0:
                visited += share * routers
                pulled += share * routers * hops * min(pending, lacking)
    distance = sum(hops * routers for hops, routers in enumerate(shells)) / nodes
    # A publication is sent to the routers that need it, and no more of them than with exhaustive semantics.
    most = fluid.exhaustive_deliveries() * distance
    notified = 2 if service.strategy == "eon" else 1
    return Traffic(min(fluid.renewals * pulled, most), notified * fluid.renewals * visited)


def traffic_at_most(nodes: int, publications: int, registrations: int) -> Traffic:
    """Returns the traffic in which every publication and every SUB goes to all routers."""
    return Traffic(publications * (nodes - 1.0), registrations * (nodes - 1.0))


def _mean_fill(uploads: float, capacity: int) -> float:
    """Returns the publications in the cache of a router, in the mean over the time of its uploads."""
    return uploads / 2 if uploads <= capacity else capacity * (1 - capacity / (2 * uploads))


def _shells(topology: Topology) -> Sequence[float]:
    """Returns how many routers are at each distance in hops from a router, in the mean."""
    count = len(topology.nodes)
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for link in topology.links:
        neighbours[link.u].append(link.v)
        neighbours[link.v].append(link.u)
    found: Counter[int] = Counter()
    sources = range(0, count, max(1, count // _SAMPLE))
    for source in sources:
        reached, shell, hops = {source}, {source}, 0
        while shell:
            found[hops] += len(shell)
            shell = {other for node in shell for other in neighbours[node]} - reached
            reached |= shell
            hops += 1
    return [found[hops] / len(sources) for hops in range(len(found))]
