"""Receiver advertisements as a part of a router: issuing them, and passing on those of others.

Protocol paper, section 3.5.1. What an RA does to the tables, and whether it goes on, is the scheme's to say.
"""

from __future__ import annotations

from typing import Protocol

from router.protocol.broadcast import Branch
from router.protocol.context import Context
from router.protocol.counters import Drop
from router.protocol.events import Action, Send
from router.protocol.parts import Part
from router.protocol.ra_schedule import AdvertisementSchedule
from router.protocol.routing import RoutingTable
from router.wire.addresses import LOCAL_INTERFACE
from router.wire.frames import Flags, Frame


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

    def __init__(self, context: Context, routing: RoutingTable, rules: AdvertisementRules) -> None:
        self._context = context
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
        context = self._context
        context.counters.ras_received += 1
        reason = self._rules.advertised(branch, frame)
        if reason is not None:
            return context.drop(reason)
        if not branch.children:
            return []
        if frame.hop_limit <= 1:
            return context.drop(Drop.HOP_LIMIT)
        context.counters.ras_forwarded += 1
        return [Send(branch.children, frame.one_hop_less())]
