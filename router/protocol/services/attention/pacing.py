"""Paced interfaces and priority forwarding (attention paper, section 4.4).

A router that sends no faster than its links keeps what waits in queues of its own, where it can choose: the
scheduler says which publication leaves next, and which one is dropped when a queue is full. SUBs, OVERLOADs
and FLUSHes leave at once; their time is taken from the publications of the interface.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace

from router.predicates import matches
from router.protocol.context import Context
from router.protocol.counters import Drop
from router.protocol.events import Action, Send
from router.protocol.services.attention.dissemination import AttentionOptions
from router.protocol.services.attention.subscriptions import SubscriptionTable
from router.wire.codec import fragment
from router.wire.frames import Frame, FrameType, Publication
from router.wire.header import ETHERNET_HEADER_LENGTH

#: Least time to a deadline that a score is computed with, seconds.
_LEAST_S = 1e-3
#: Time that an interface may make up for after a late tick, seconds.
_LATE_S = 5e-3
#: The greatest age of a frame.
_AGE_MAX_US = 2**64 - 1


@dataclass(slots=True, eq=False)
class Waiting:
    """A PUB that waits at an interface.

    Attributes:
        frame: the PUB.
        since: when it came, seconds.
        number: of its arrival.
        duration_s: that the interface needs to send it.
        deadlines: of the subscriptions behind the interface for which it is, ascending; empty under fifo,
            where all scores are 0.
    """

    frame: Frame
    since: float
    number: int
    duration_s: float
    deadlines: list[float]

    def priority(self, now: float) -> tuple[float, int]:
        """The greatest leaves first, the least is dropped; of equal scores, the earlier PUB leaves first."""
        return self.cbf(now), -self.number

    def cbf(self, now: float) -> float:
        """Cbf(P), equation (4): subscriptions, by the time until the first of them ends; 0 without any."""
        first = bisect_right(self.deadlines, now)
        left = len(self.deadlines) - first
        return left / max(_LEAST_S, self.deadlines[first] - now) if left else 0.0


@dataclass(slots=True)
class _Interface:
    """An interface: the time at which it is free, and the PUBs that wait."""

    free_at: float = 0.0
    queue: list[Waiting] = field(default_factory=list)


class Pacing:
    """The queues of one router.

    Args:
        context: of the router.
        table: the subscriptions of other routers.
        options: bandwidth, scheduler and length of the queues.
    """

    def __init__(self, context: Context, table: SubscriptionTable, options: AttentionOptions) -> None:
        assert options.pace_mbps is not None
        self._context = context
        self._table = table
        self._seconds_per_byte = 8e-6 / options.pace_mbps
        self._by_deadlines = options.scheduler == "cbf"
        self._most = options.queue_publications
        self._interfaces: dict[int, _Interface] = {}
        self._number = 0

    @property
    def idle(self) -> bool:
        """True if no PUB waits."""
        return not any(each.queue for each in self._interfaces.values())

    def next_deadline(self) -> float | None:
        return min((each.free_at for each in self._interfaces.values() if each.queue), default=None)

    def paced(self, actions: list[Action], now: float) -> list[Action]:
        """Returns the actions that are carried out now; the other PUBs wait."""
        at_once: list[Action] = []
        for action in actions:
            if not isinstance(action, Send):
                at_once.append(action)
                continue
            duration_s = self._duration_s(action.frame)
            for number in sorted(action.interfaces):
                interface = self._interfaces.setdefault(number, _Interface())
                waits = interface.queue or interface.free_at > now
                if action.frame.type is FrameType.PUB and waits:
                    self._wait(interface, action.frame, duration_s, now)
                    continue
                interface.free_at = max(interface.free_at, now) + duration_s
                at_once.append(
                    action if len(action.interfaces) == 1 else Send(frozenset({number}), action.frame)
                )
        return at_once

    def tick(self, now: float) -> list[Action]:
        """Sends what waits at interfaces that are free."""
        actions: list[Action] = []
        for number, interface in self._interfaces.items():
            while interface.queue and interface.free_at <= now:
                best = max(interface.queue, key=lambda each: each.priority(now))
                interface.queue.remove(best)
                table = self._context.tables.get(best.frame.epoch)
                if table is None or number not in table.neighbours:
                    self._context.drop(Drop.UNKNOWN_EPOCH)
                    continue
                interface.free_at = max(interface.free_at, now - _LATE_S) + best.duration_s
                actions.append(Send(frozenset({number}), _older(best.frame, now - best.since)))
        return actions

    def _wait(self, interface: _Interface, frame: Frame, duration_s: float, now: float) -> None:
        self._number += 1
        # They are compared with every subscription of every home of the PUB.
        deadlines = self._deadlines(frame, now) if self._by_deadlines else []
        interface.queue.append(Waiting(frame, now, self._number, duration_s, deadlines))
        if len(interface.queue) > self._most:
            worst = min(interface.queue, key=lambda each: each.priority(now))
            interface.queue.remove(worst)
            self._context.drop(Drop.QUEUE_FULL)

    def _deadlines(self, frame: Frame, now: float) -> list[float]:
        """The deadlines of S_P, ascending.

        They are those of the subscriptions of each home of the frame that match and lack publications; where
        none does, as far as this router knows, of those that match.
        """
        body = frame.body
        assert isinstance(body, Publication)
        found: list[float] = []
        for home in body.homes:
            entries = [
                each
                for each in self._table.of_home(home)
                if each.deadline > now and matches(each.predicate, body.message)
            ]
            lacking = [each.deadline for each in entries if each.active]
            found += lacking or [each.deadline for each in entries]
        return sorted(found)

    def _duration_s(self, frame: Frame) -> float:
        length = sum(ETHERNET_HEADER_LENGTH + len(payload) for payload in fragment(frame))
        return length * self._seconds_per_byte


def _older(frame: Frame, waited_s: float) -> Frame:
    """The PUB with the time in the queue added to the age of its publication."""
    body = frame.body
    assert isinstance(body, Publication)
    # A neighbour may have sent the greatest age of the field.
    aged = replace(body, age_us=min(_AGE_MAX_US, body.age_us + max(0, round(waited_s * 1e6))))
    return Frame(frame.type, frame.issuer, frame.seq, frame.epoch, frame.hop_limit, aged, frame.flags)
