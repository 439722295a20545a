"""Expected results of a workload of table 1, computed before a run, without a network.

`Fluid` is the model of figure 2. Arrivals are Poisson, a router is active for an event if it has a
subscription in its lifetime, and a router receives each publication at most once. A renewal needs
publications that its router has not used, a new subscription is served from the cache of its router. Sizes
are deliveries to routers: crossings are these times the mean length of a path, which caches make shorter.

`traffic_of_table_1` adds the topology. A SUB leaves through every child of its router with what is lacking.
It goes on as long as the routers on its path together have fewer pending publications of its event than
`max`; each of them sends what it has.

SUBs and publications of `diallo-small` with PDP crossed 1,803 and 11,659 links, by
`cbcb simulate diallo-small --set service.strategy=pdp --captures none --engine duckdb`; the estimates are
1,136 and 4,160, by `cbcb check diallo-small --set service.strategy=pdp`, in 200 s.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.experiments.config import AttentionWorkload, Experiment
from testbed.experiments.workload.attention import popularities
from topos import Topology

#: Routers from which distances are counted; more say nothing new.
_SAMPLE = 100


@dataclass(frozen=True)
class Fluid:
    """The model of a workload.

    Attributes:
        options: of the workload.
        nodes: N.
        duration_s: T.
        buffer: B_i, publications that a router keeps.
    """

    options: AttentionWorkload
    nodes: int
    duration_s: float
    buffer: int = 2500

    @property
    def shares(self) -> list[float]:
        """p_i by event."""
        return popularities(self.options.events, self.options.exponent)

    @property
    def active(self) -> float:
        """Mean number of subscriptions in their lifetime."""
        options = self.options
        rate = options.subscriptions / self.duration_s
        return rate * options.lifetime_s / (1 - options.refresh_probability)

    @property
    def renewals(self) -> float:
        """Mean number of renewals."""
        options = self.options
        return options.subscriptions * options.refresh_probability / (1 - options.refresh_probability)

    @property
    def registrations(self) -> float:
        """Mean number of registrations, renewals included."""
        return self.options.subscriptions + self.renewals

    def exhaustive_deliveries(self) -> float:
        """Returns the publications that routers receive with exhaustive semantics (CBR)."""
        return sum(
            self.options.publications * share * hosts * (1 - math.exp(-self.active * share / hosts))
            for share, hosts in self._by_event()
        )

    def limited_deliveries(self) -> float:
        """Returns the publications that routers receive for renewals.

        Renewals of a router that collect at the same time share publications.
        """
        options, total = self.options, 0.0
        for share, hosts in self._by_event():
            rate = options.publications * share / self.duration_s
            collecting_s = min(options.lifetime_s, options.max / rate)
            renewing = self.renewals * share / hosts / self.duration_s
            total += rate * self.duration_s * hosts * (1 - math.exp(-renewing * collecting_s))
        return total

    def saved_bandwidth(self) -> float:
        """Returns the share of deliveries to routers that the framework saves against CBR."""
        return 1 - self.limited_deliveries() / self.exhaustive_deliveries()

    def matching(self, share: float) -> float:
        """Returns M_S: the mean number of publications of an event in a lifetime."""
        return self.options.publications * share * self.options.lifetime_s / self.duration_s

    def visited(self) -> float:
        """Returns the mean number of further routers whose pending publications a renewal needs.

        Each router keeps B_i p_i publications of the event.
        """
        most = self.nodes - 1
        return sum(
            share * min(most, max(0.0, self.options.max / (self.buffer * share) - 1))
            for share, _ in self._by_event()
        )

    def control_share(self) -> float:
        """Returns the crossings of SUBs over those of CBR, which floods every registration."""
        return self.renewals * self.visited() / (self.registrations * (self.nodes - 1))

    def _by_event(self) -> list[tuple[float, int]]:
        return [(share, max(1, math.ceil(share * self.nodes - 1e-9))) for share in self.shares]


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
