"""The attention-limited service: `[service] kind = "attention"` (docs/explanation/attention.md).

Diallo, Fdida and Spathis, "Towards Extreme Scale Content-Based Networking for the Next Generation Internet"
(the attention paper). Applications register subscriptions with a maximum, a lifetime and a freshness, and
upload publications; routers cache publications and send them where a subscription needs them. The service has
frames of its own beside those of the routing scheme, whose predicates stay empty.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from router.content import Content, shown
from router.options import SECONDS_MAX
from router.predicates import Message, matches
from router.protocol.broadcast import Branch
from router.protocol.context import Context, earlier
from router.protocol.counters import Drop
from router.protocol.events import Action, ApplicationGone, Refused, Send, ServiceEvent
from router.protocol.routing import RoutingTable
from router.protocol.services import (
    Command,
    Handle as HandleEvent,
    Request,
    RequestError,
    Service,
    Session,
    integer_in,
    seconds_in,
)
from router.protocol.services.attention import (
    Refresh,
    Register,
    Registered,
    Unregister,
    Unregistered,
    Upload,
    Uploaded,
)
from router.protocol.services.attention.dissemination import AttentionOptions
from router.protocol.services.attention.flushing import Flushing
from router.protocol.services.attention.relay import Relay
from router.protocol.services.attention.rounds import Homes, State
from router.wire.attention import MAX_PUBLICATION_BYTES
from router.wire.codec import fragment
from router.wire.frames import Frame, FrameType, Publication
from router.wire.header import ETHERNET_HEADER_LENGTH
from router.wire.message import encode_message

#: Of the attributes of a PUB; beside them it has its homes.
_MESSAGE_BYTES = MAX_PUBLICATION_BYTES // 2
_U32_MAX, _U64_MAX = 2**32 - 1, 2**64 - 1


class Attention(Service):
    """The service at one router.

    Attributes:
        state: its memory.
    """

    options = AttentionOptions
    sends_messages = False
    keeps_records = True

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        super().__init__(context, routing)
        self.state = state = State(context)
        self._homes = Homes(state)
        self._flushing = Flushing(state)
        self._relay = Relay(state, self._homes, self._flushing)
        self._pacing = None if state.options.pace_mbps is None else Pacing(state)

    # Applications.

    def register(self, event: Register, now: float) -> list[Action]:
        return self._paced(self._homes.register(event, now), now)

    def refresh(self, event: Refresh, now: float) -> list[Action]:
        return self._paced(self._homes.refresh(event, now), now)

    def unregister(self, event: Unregister, now: float) -> list[Action]:
        return self._paced(self._homes.unregister(event, now), now)

    def application_gone(self, event: ApplicationGone, now: float) -> list[Action]:
        return self._paced(self._homes.application_gone(event, now), now)

    def upload(self, event: Upload, now: float) -> list[Action]:
        return self._paced(self._relay.upload(event, now), now)

    # Frames of neighbours.

    def sub_received(self, place: Branch | int, frame: Frame, now: float) -> list[Action]:
        return self._paced(self._relay.sub_received(place, frame, now), now)

    def pub_received(self, branch: Branch, frame: Frame, now: float) -> list[Action]:
        return self._paced(self._relay.pub_received(branch, frame, now), now)

    def overload_received(self, branch: Branch, frame: Frame, now: float) -> list[Action]:
        return self._paced(self._relay.overload_received(branch, frame, now), now)

    def flush_received(self, interface: int, frame: Frame, now: float) -> list[Action]:
        return self._paced(self._relay.flush_received(interface, frame, now), now)

    @property
    def idle(self) -> bool:
        waits = self._pacing is not None and not self._pacing.idle
        return self._homes.idle and self._flushing.idle and not waits

    def next_deadline(self) -> float | None:
        state = self.state
        at = earlier(state.timers.next_deadline(), state.searches.next_deadline())
        at = earlier(at, state.table.next_deadline())
        return at if self._pacing is None else earlier(at, self._pacing.next_deadline())

    def tick(self, now: float) -> list[Action]:
        state = self.state
        state.table.tick(now)
        actions = state.timers.tick(now) + state.searches.tick(now)
        # What waits goes before what is new.
        waited = [] if self._pacing is None else self._pacing.tick(now)
        return waited + self._paced(actions, now)

    def epoch_changed(self, now: float, first: bool) -> list[Action]:  # noqa: ARG002
        return self._paced(self._homes.epoch_changed(now), now)

    def _paced(self, actions: list[Action], now: float) -> list[Action]:
        """The actions without the PUBs that must wait at an interface."""
        return actions if self._pacing is None else self._pacing.paced(actions, now)

    def settle(self) -> None:
        self.state.settled = True

    def receivers(self, message: Message) -> tuple[int, ...]:  # noqa: ARG002
        """No application: the service has no messages, and p0 is empty."""
        return ()

    @classmethod
    def session(cls, number: int, content: Content) -> Session:
        return AttentionSession(number, content)


class AttentionSession(Session):
    """The commands `register`, `refresh`, `unregister` and `publish`."""

    def commands(self) -> Mapping[str, Command]:
        return {
            "register": self._register,
            "refresh": self._refresh,
            "unregister": self._unregister,
            "publish": self._publish,
        }

    def _register(self, request: Request, handle: HandleEvent) -> tuple[dict[str, Any], Iterable[Action]]:
        refreshed = request.get("refreshed", False)
        if not isinstance(refreshed, bool):
            raise RequestError(f"refreshed: expected true or false, got {shown(refreshed)}")
        event = Register(
            self.number,
            self.content.requested_predicate(request),
            integer_in(request, "max", 1, _U32_MAX),
            seconds_in(request, "lifetime_s", SECONDS_MAX),
            seconds_in(request, "freshness_s", SECONDS_MAX),
            refreshed,
        )
        return _answered(event, handle)

    def _refresh(self, request: Request, handle: HandleEvent) -> tuple[dict[str, Any], Iterable[Action]]:
        return _answered(Refresh(self.number, integer_in(request, "subscription", 0, _U64_MAX)), handle)

    def _unregister(self, request: Request, handle: HandleEvent) -> tuple[dict[str, Any], Iterable[Action]]:
        return _answered(Unregister(self.number, integer_in(request, "subscription", 0, _U64_MAX)), handle)

    def _publish(self, request: Request, handle: HandleEvent) -> tuple[dict[str, Any], Iterable[Action]]:
        message = self.content.requested_message(request)
        size = len(encode_message(message)) if isinstance(message, Message) else 0
        if size > _MESSAGE_BYTES:
            raise RequestError(f"attributes: {size} bytes in a PUB; at most {_MESSAGE_BYTES}")
        return _answered(Upload(self.number, message), handle)


def _answered(event: ServiceEvent, handle: HandleEvent) -> tuple[dict[str, Any], Iterable[Action]]:
    """Passes an event to the core, whose actions have the answer to it."""
    actions = list(handle(event))
    for action in actions:
        if isinstance(action, Registered):
            return {"ok": True, "subscription": action.subscription, "round": action.round}, actions
        if isinstance(action, Uploaded):
            return {"ok": True, "source": action.source, "seq": action.seq}, actions
        if isinstance(action, Unregistered):
            return {"ok": True}, actions
        if isinstance(action, Refused):
            raise RequestError(action.reason)
    raise AssertionError(f"the core did not answer {type(event).__name__}")


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
    """The queues of one router: paced interfaces and priority forwarding (attention paper, section 4.4).

    A router that sends no faster than its links keeps what waits in queues of its own, where it can choose:
    the scheduler says which publication leaves next, and which one is dropped when a queue is full. SUBs,
    OVERLOADs and FLUSHes leave at once; their time is taken from the publications of the interface.

    Args:
        state: of the router, whose options have a bandwidth.
    """

    def __init__(self, state: State) -> None:
        options = state.options
        assert options.pace_mbps is not None
        self._context = state.context
        self._table = state.table
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
