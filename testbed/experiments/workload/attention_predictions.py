"""Expected results of a workload of table 1, computed before a run, without a network.

`Fluid` is the model of figure 2. Arrivals are Poisson, a router is active for an event if it has a
subscription in its lifetime, and a router receives each publication at most once. A renewal needs
publications that its router has not used, a new subscription is served from the cache of its router.
Subscriptions come from second 0 on, whatever `subscriptions_from_s` says. Sizes
are deliveries to routers: crossings are these times the mean length of a path, which caches make shorter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from testbed.experiments.config import AttentionWorkload
from testbed.experiments.workload.attention import localities, popularities


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
            collecting_s = min(options.lifetime_s, options.max / rate) if rate else options.lifetime_s
            renewing = self.renewals * share / hosts / self.duration_s
            total += rate * self.duration_s * hosts * (1 - math.exp(-renewing * collecting_s))
        return total

    def saved_bandwidth(self) -> float:
        """Returns the share of deliveries to routers that the framework saves against CBR."""
        return 1 - self.limited_deliveries() / self.exhaustive_deliveries()

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
        hosts = (max(1, math.ceil(each * self.nodes - 1e-9)) for each in localities(self.options))
        return list(zip(self.shares, hosts, strict=True))
