"""Controlled SRs: when a router asks, and through which interfaces (section 3.5.5)."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable

from router.protocol.options import RouterOptions
from router.protocol.parts import MessageCounts
from router.protocol.timer_times import first_time_drawn, time_drawn


class RequestPolicy:
    """`never`; `periodic`: through every interface each `sr_period_s`, in the mean with exponential timers;
    `count`: through interface i when the messages sent through it since the last SR, C_i, exceed
    `sr_threshold`, but not within `sr_min_interval_s` of that SR.
    """

    def __init__(self, options: RouterOptions, rng: random.Random) -> None:
        self._options = options
        self._rng = rng
        self._policy = options.sr_policy
        self._periodic_at: float | None = None
        #: C_i of every interface.
        self.messages = MessageCounts(options.sr_threshold)
        self._issued_at: dict[int, float] = {}

    def start(self, now: float) -> None:
        """The router has its first epoch: the period begins, at a random phase."""
        if self._policy == "periodic":
            self._periodic_at = now + first_time_drawn(self._options, self._rng, self._options.sr_period_s)

    def stop(self) -> None:
        """From now on: `never`."""
        self._policy = "never"
        self._periodic_at = None
        self.messages.unlimit()

    def next_deadline(self, askable: Iterable[int]) -> float | None:
        """When an SR is due (perhaps long since), given the interfaces through which none is outstanding."""
        if self._policy == "count":
            return min((self._allowed_at(i) for i in self._exceeding(askable)), default=None)
        return self._periodic_at

    def forwarded(self, interfaces: Iterable[int]) -> None:
        """A message went out of `interfaces`."""
        if self._policy == "count":
            self.messages.add(interfaces)

    def periodic(self, now: float) -> bool:
        """Whether a round through every interface is due; the answer yes settles it."""
        if self._periodic_at is None or now < self._periodic_at:
            return False
        period = time_drawn(self._options, self._rng, self._options.sr_period_s)
        on_time = self._periodic_at + period
        self._periodic_at = on_time if on_time > now else now + period
        return True

    def exceeding(self, askable: Iterable[int], now: float) -> frozenset[int]:
        """Those of `askable` through which an SR is due by their message counts."""
        return frozenset(i for i in self._exceeding(askable) if now >= self._allowed_at(i))

    def issued(self, interfaces: Iterable[int], now: float) -> None:
        """An SR went out of `interfaces`, whatever the reason."""
        for interface in interfaces:
            self.messages.reset(interface)
            self._issued_at[interface] = now

    def set_askable(self, askable: Collection[int]) -> None:
        """The interfaces through which the policy may ask: counts of others make nothing due.

        Compiled code counts messages by it (`router.forwarding`).
        """
        self.messages.fit(max(askable, default=0))
        due = self.messages.due
        for interface in range(len(due)):
            due[interface] = self._allowed_at(interface) if interface in askable else math.inf

    def keep_only(self, interfaces: Iterable[int]) -> None:
        """Forgets the counts of every other interface."""
        self.messages.keep_only(interfaces)

    def _exceeding(self, interfaces: Iterable[int]) -> list[int]:
        if self._policy != "count":
            return []
        return [i for i in interfaces if self.messages[i] > self.messages.limit]

    def _allowed_at(self, interface: int) -> float:
        issued_at = self._issued_at.get(interface)
        # Nothing was issued: at once, by any clock.
        return 0.0 if issued_at is None else issued_at + self._options.sr_min_interval_s
