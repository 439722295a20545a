"""The CBCB router: one state machine, no IO, no clock.

`handle` takes an event and the time (any monotonic clock, seconds) and returns what to do about it, in
order. `next_deadline` says when a `Tick` is due at the latest. Nothing that comes in from the network
makes it raise: what cannot be used is counted by reason.

A router is a list of parts (`router.protocol.context`): the session with the controller, the routing scheme
and what it needs, the service and what it needs, the messages. Which part takes an event or a frame stands in
`router.protocol.core.dispatch`. Around the core there may be layers (`router.protocol.core.layers`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from router.matching.engines import Matcher
from router.predicates.parser import Most
from router.protocol.broadcast import Branch
from router.protocol.context import Context, MessageCounts
from router.protocol.core.dispatch import event_handlers, frame_rules
from router.protocol.core.intake import Intake
from router.protocol.core.messages import Messages
from router.protocol.core.session import ControllerSession
from router.protocol.counters import Drop
from router.protocol.events import Action, Event, FrameReceived
from router.protocol.options import SCHEMES, SERVICES, RouterOptions, content_of
from router.protocol.routing import RoutingTable
from router.protocol.schemes import Row, Scheme
from router.protocol.services import Service, Session
from router.wire.frames import EncodedPredicate, Frame

_INCARNATIONS = 1 << 32


@dataclass(frozen=True, slots=True)
class ForwardingState:
    """The parts of a router's state.

    Attributes:
        scheme: says which entry of its routing table decides about which interface.
        counts: messages by interface, which a part counts; None: no part does.
        messages: delivers the messages that p0 selects.
    """

    scheme: Scheme
    counts: MessageCounts | None
    messages: Messages


class Layer(Protocol):
    """A router as its driver has it: the core, or a layer around it (`router.protocol.core.layers`).

    Each layer takes all events, and gives those that it does not keep to the layer below.
    """

    @property
    def core(self) -> Router:
        """The router within all layers: what an observer asks, it answers."""

    @property
    def idle(self) -> bool:
        """See `Router`."""

    def next_deadline(self) -> float | None:
        """See `Router`."""

    def handle(self, event: Event, now: float) -> list[Action]:
        """See `Router`."""


class Router:
    """The core of one CBCB router.

    Args:
        node: its node identifier.
        options: see there.
        matcher: an empty matcher, which gets from the routing table what messages ask for, when they do; or
            None (`router.protocol.routing.RoutingTable`).
        incarnation: 32 bits, greater than at any earlier start of this node. It is the high half of
            every sequence number. Messages, RAs and SRs count separately, each from 1.
        rng: source of jitter; seeded with the node identifier if none is given.

    Attributes:
        content: the form of predicates and messages.
        service: of this router to applications.

    Raises:
        ValueError: the incarnation does not fit in 32 bits.
    """

    def __init__(
        self,
        node: int,
        options: RouterOptions,
        matcher: Matcher | None,
        incarnation: int,
        rng: random.Random | None = None,
    ) -> None:
        if not 0 <= incarnation < _INCARNATIONS:
            raise ValueError(f"incarnation {incarnation} does not fit in 32 bits")
        self.node = node
        self.options = options
        most = Most(options.predicate_filters, options.filter_weight, options.predicate_weight)
        content = content_of(options.covering, options.privacy)(most)
        rng = rng if rng is not None else random.Random(node)
        self._context = context = Context(node, options, incarnation, rng, content)
        self._routing = routing = RoutingTable(matcher, content, options.max_filters)
        scheme: Scheme = SCHEMES[options.scheme](context, routing)
        service: Service = SERVICES[options.service](context, routing)
        self._scheme, self.service = scheme, service
        self.content, self.counters = content, context.counters
        self._messages = messages = Messages(context, scheme, service)
        self._parts = parts = context.parts
        parts.join([ControllerSession(context), scheme, *scheme.parts(), service, *service.parts(), messages])
        bodies = {
            content.message_frame: scheme.message_bodies,
            content.advertisement_frame: (*content.predicate_bodies, EncodedPredicate),
            content.reply_frame: (*content.predicate_bodies, EncodedPredicate),
        }
        self._intake = Intake(context, routing, frame_rules(parts, bodies))
        parts.join([self._intake])
        self._events = event_handlers([parts, *parts])
        self._frame_received = self._events[FrameReceived]

    # What an observer may ask.

    @property
    def core(self) -> Router:
        return self

    @property
    def epoch(self) -> int:
        """The epoch in which this router originates; 0 before the first."""
        return self._context.epoch

    @property
    def idle(self) -> bool:
        """True if the router is set up, owes the network nothing (periodic RAs apart) and awaits no UR."""
        return self._parts.idle

    def interface(self, sender: int, frame: Frame) -> int | Drop:
        """The interface that leads to the neighbour that sent a frame, or why the frame is dropped."""
        return self._intake.interface(sender, frame)

    def admits(self, sender: int, frame: Frame) -> bool:
        """Whether a frame of the neighbour `sender` passes the checks that come before its signature."""
        return not isinstance(self._intake.admitted(sender, frame), Drop)

    def interfaces(self) -> Mapping[int, int]:
        """Interface -> neighbouring node, in the current epoch."""
        current = self._context.tables.current
        return dict(current.neighbours) if current is not None else {}

    def neighbours(self) -> Mapping[int, int]:
        """Interface -> neighbouring node, in any epoch in use."""
        return self._context.tables.neighbours

    def branch(self, source: int) -> Branch | None:
        """This router's part in the tree of `source`, in the current epoch; None: it cannot be reached."""
        current = self._context.tables.current
        return current.branch(source) if current is not None else None

    def rows(self) -> tuple[Row, ...]:
        """The routing table, as the scheme has it; empty predicates are left out."""
        return tuple(self._scheme.rows())

    def forwarding(self) -> ForwardingState | None:
        """The state by which compiled code may forward messages as `handle` would; None: it may not."""
        counts = self._parts.message_counts()
        if not self.content.compiled or counts is None or len(counts) > 1:
            return None
        return ForwardingState(self._scheme, counts[0] if counts else None, self._messages)

    @property
    def engine_bytes(self) -> int | None:
        """The memory of the matching engine, in bytes; None: the engine does not count it."""
        return None if self._routing.matcher is None else self._routing.matcher.nbytes

    def session(self, number: int) -> Session:
        """A newly connected application, of the service that this router offers."""
        return self.service.session(number, self.content)

    def refusal(self, event: type[Event]) -> str | None:
        """Why this router takes no events of a type; None: it takes them."""
        if event in self._events:
            return None
        options = self.options
        return f'of no use with the scheme "{options.scheme}" and the service "{options.service}"'

    def next_deadline(self) -> float | None:
        """The time at which a `Tick` is due, which may have passed; None: not before something comes in."""
        return self._parts.next_deadline()

    # Events.

    def handle(self, event: Event, now: float) -> list[Action]:
        """Takes one event at time `now` (seconds, monotonic).

        Returns what to do, in order.

        An event that no part of this router takes changes nothing.
        """
        if type(event) is FrameReceived:  # most events; the intake knows which change deadlines
            return self._frame_received(event, now)
        self._parts.changed = True
        handler = self._events.get(type(event))
        return handler(event, now) if handler is not None else []
