"""Receiver advertisements as a part of a router: issuing them, and passing on those of others.

Protocol paper, section 3.5.1. What an RA does to the tables, and whether it goes on, is the scheme's to say.
"""

from __future__ import annotations

import random
from typing import Protocol

from router.protocol.broadcast import Branch
from router.protocol.context import Context
from router.protocol.counters import Drop
from router.protocol.events import Action, Send
from router.protocol.options import RouterOptions
from router.protocol.parts import Part, earlier
from router.protocol.routing import RoutingTable
from router.wire.frames import Flags, Frame
from router.wire.header import LOCAL_INTERFACE


class AdvertisementSchedule:
    """Decides when the next RA is due.

    Two RAs of one router are at least `ra_min_interval_s` apart. Changes within that time wait and are
    advertised by one RA, which carries p0 as it then is: the last change is never lost.

    With exponential timers, a router that has issued an RA may issue the next at the points of a Poisson
    process, `ra_min_interval_s` apart in the mean, and the changes before a point wait for it.
    """

    def __init__(self, options: RouterOptions, rng: random.Random) -> None:
        self._options = options
        self._rng = rng
        self._due_at: float | None = None
        self._periodic_at: float | None = None
        self._stopped = False
        self._issued_at: float | None = None
        #: The next point at which an RA may be issued, with exponential timers.
        self._point_at = 0.0

    @property
    def pending(self) -> bool:
        """True if an RA is due, now or later (periodic ones apart)."""
        return self._due_at is not None

    def next_deadline(self) -> float | None:
        return earlier(self._due_at, self._periodic_at)

    def start(self, now: float) -> None:
        """The router has its first epoch: periodic advertising begins, unless it was stopped before."""
        if self._options.ra_period_s is not None and not self._stopped:
            self._periodic_at = now + self._options.first_time_drawn(self._rng, self._options.ra_period_s)

    def ask(self, now: float, jitter: float | None = None) -> None:
        """p0 should be advertised, at random within `jitter` seconds (default: the option)."""
        within = self._options.ra_jitter_s if jitter is None else jitter
        at = self._allowed_at(now) + self._rng.random() * within
        self._due_at = at if self._due_at is None else min(self._due_at, at)

    def due(self, now: float) -> bool:
        """Whether p0 should be advertised at `now`; the answer yes settles what was asked."""
        if self._periodic_at is not None and now >= self._periodic_at:
            period = self._options.time_drawn(self._rng, self._options.ra_period_s or 0.0)
            on_time = self._periodic_at + period
            # One RA however many periods were slept through.
            self._periodic_at = on_time if on_time > now else now + period
            self.ask(now)
        if self._due_at is None or now < self._due_at:
            return False
        self._due_at = None
        return True

    def stop(self) -> None:
        """Periodic advertising ends, or never begins."""
        self._stopped = True
        self._periodic_at = None

    def issued(self, now: float) -> None:
        """An RA went out."""
        self._issued_at = now

    def _allowed_at(self, now: float) -> float:
        """The earliest time, from `now` on, at which an RA may be issued."""
        least_s = self._options.ra_min_interval_s
        if self._issued_at is None:
            return now
        if self._options.timers == "fixed":
            return max(now, self._issued_at + least_s)
        # Without memory: the points that passed unused need not be drawn.
        if self._point_at <= now:
            self._point_at = now + self._options.time_drawn(self._rng, least_s)
        return self._point_at


class AdvertisementRules(Protocol):
    """The meaning of RAs in a scheme."""

    @property
    def ra_flags(self) -> Flags:
        """The flags of the RAs that this router issues."""

    def worth_advertising(self, filters: int) -> bool:
        """Whether an RA with a p0 of so many filters tells other routers anything."""

    def advertised(self, branch: Branch, frame: Frame) -> Drop | None:
        """Takes an RA into the tables.

        Returns why it goes no further, or None: it goes on.
        """


class Advertising(Part):
    """Issues RAs by the schedule, and passes on those of other routers."""

    __slots__ = ("_context", "_counters", "_issued", "_routing", "_rules", "_schedule")

    def __init__(self, context: Context, routing: RoutingTable, rules: AdvertisementRules) -> None:
        self._context = context
        self._counters = context.counters
        self._routing = routing
        self._rules = rules
        self._schedule = AdvertisementSchedule(context.options, context.rng)
        self._issued = 0

    @property
    def idle(self) -> bool:
        """True if no RA is due (periodic ones apart)."""
        return not self._schedule.pending

    def next_deadline(self) -> float | None:
        return self._schedule.next_deadline()

    def tick(self, now: float) -> list[Action]:
        """An RA with p0, if the schedule says so."""
        context = self._context
        if not self._schedule.due(now):
            return []
        local = self._routing.local
        children = context.own_branch().children
        if not children or not self._rules.worth_advertising(len(local)):
            return []
        self._schedule.issued(now)
        self._issued += 1
        context.counters.ras_issued += 1
        number = context.sequence_number(self._issued)
        frame = context.issued(context.content.advertisement_frame, number, local, self._rules.ra_flags)
        return [Send(children, frame)]

    def epoch_changed(self, now: float, first: bool) -> list[Action]:
        if first:
            self._schedule.start(now)
        if self._rules.worth_advertising(len(self._routing.copy_of(LOCAL_INTERFACE))):
            # After the first epoch all routers change to a new one at the same moment.
            self._schedule.ask(now, None if first else self._context.options.readvertise_jitter_s)
        return self.tick(now)

    def local_changed(self, now: float) -> list[Action]:
        # Before the first epoch p0 waits: each new epoch makes an RA.
        if not self._context.options.ra_on_change or self._context.tables.current is None:
            return []
        self._schedule.ask(now)
        return self.tick(now)

    def settle(self) -> None:
        """No more periodic RAs."""
        self._schedule.stop()

    def received(self, branch: Branch, frame: Frame, _now: float) -> list[Action]:
        """An RA of another router came in."""
        counters = self._counters
        counters.ras_received += 1
        reason = self._rules.advertised(branch, frame)
        if reason is not None:
            return self._context.drop(reason)
        if not branch.children:
            return []
        if frame.hop_limit <= 1:
            return self._context.drop(Drop.HOP_LIMIT)
        counters.ras_forwarded += 1
        return [Send(branch.children, frame.one_hop_less())]
