"""The CBCB router: one state machine, no IO, no clock.

`handle` takes an event and the time (any monotonic clock, seconds) and returns what to do about it, in
order. `next_deadline` says when a `Tick` is due at the latest. Nothing that comes in from the network
makes it raise: what cannot be used is counted by reason.

A router is a list of parts (`router.protocol.parts`): the session with the controller, the routing scheme and
what it needs, the service and what it needs, the messages.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from router.content.base import Content
from router.content.registry import content_of
from router.matching.common.interface import Matcher
from router.protocol.broadcast import Branch
from router.protocol.confirmation import Confirmation
from router.protocol.context import Context
from router.protocol.counters import Counters
from router.protocol.events import Action, ControllerFrame, Event, FrameReceived, Settle, Tick
from router.protocol.forwarding import ForwardingState
from router.protocol.frame_table import FrameTable
from router.protocol.intake import Intake
from router.protocol.messages import Messages
from router.protocol.options import RouterOptions
from router.protocol.parts import EventHandler
from router.protocol.registries import SCHEMES, SERVICES
from router.protocol.routing import RoutingTable
from router.protocol.scheme import Row
from router.protocol.service import Session
from router.protocol.session import ControllerSession
from router.protocol.signatures import Verifier
from router.wire.addresses import CONTROLLER

_INCARNATIONS = 1 << 32


class Router:
    """One CBCB router.

    Args:
        node: its node identifier.
        options: see there.
        matcher: an empty matcher, which gets from the routing table what messages ask for, when they do; or
            None (`router.protocol.routing.RoutingTable`).
        incarnation: 32 bits, greater than at any earlier start of this node. It is the high half of
            every sequence number. Messages, RAs and SRs count separately, each from 1.
        rng: source of jitter; seeded with the node identifier if none is given.
        verifier: verifies the signatures of others; None: frames need none.

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
        verifier: Verifier | None = None,
    ) -> None:
        if not 0 <= incarnation < _INCARNATIONS:
            raise ValueError(f"incarnation {incarnation} does not fit in 32 bits")
        self.node = node
        self.options = options
        content = content_of(options.covering, options.privacy)()
        rng = rng if rng is not None else random.Random(node)
        self._context = context = Context(node, options, incarnation, rng, content, verifier)
        self._routing = routing = RoutingTable(matcher, content, options.max_filters)
        self._scheme = SCHEMES[options.scheme](context, routing)
        self._messages = messages = Messages(context, self._scheme)
        self._service = SERVICES[options.service](context, routing, messages)
        messages.receivers, messages.search = self._service.receivers, self._service.search
        self._parts = context.parts
        self._parts.join([ControllerSession(context), self._scheme, *self._scheme.parts()])
        self._parts.join([self._service, *self._service.parts(), messages])
        self._frames = FrameTable(node, context.tables, context.counters)
        self._intake = Intake(context, self._frames, routing)
        self._parts.join([self._intake])
        self._events: dict[type, EventHandler] = {
            FrameReceived: self._intake.frame_received,
            ControllerFrame: self._controller_frame,
            Tick: self._tick,
            Settle: self._settle,
        }
        confirmation = Confirmation(context) if options.reliable_control else None
        if confirmation is not None:
            self._parts.join([confirmation])
        for part in self._parts:
            self._frames.add(part.frames())
            self._events.update(part.events())
        if self._service.apart and confirmation is None:
            self._set_apart()
        if confirmation is not None:
            self._events[FrameReceived] = confirmation.confirmed(self._events[FrameReceived])
            self._events = {event: confirmation.confirming(each) for event, each in self._events.items()}

    # What an observer may ask.

    @property
    def counters(self) -> Counters:
        return self._context.counters

    @property
    def content(self) -> Content:
        """The form of predicates and messages."""
        return self._context.content

    @property
    def epoch(self) -> int:
        """The epoch in which this router originates; 0 before the first."""
        return self._context.epoch

    @property
    def idle(self) -> bool:
        """True if the router is set up, owes the network nothing (periodic RAs apart) and awaits no UR."""
        return self._parts.idle

    def interfaces(self) -> Mapping[int, int]:
        """Interface -> neighbouring node, in the current epoch."""
        current = self._context.tables.current
        return dict(current.neighbours) if current is not None else {}

    def neighbours(self) -> Mapping[int, int]:
        """Interface -> neighbouring node, in any epoch in use."""
        return self._context.tables.neighbours()

    def branch(self, source: int) -> Branch | None:
        """This router's part in the tree of `source`, in the current epoch; None: it cannot be reached."""
        current = self._context.tables.current
        return current.branch(source) if current is not None else None

    def rows(self) -> tuple[Row, ...]:
        """The routing table, as the scheme has it; empty predicates are left out."""
        return tuple(self._scheme.rows())

    def rows_in_turns(self) -> Iterator[Row]:
        """As `rows`; between two, the router may handle events, which the rows behind may show."""
        return iter(self._scheme.rows())

    def forwarding(self) -> ForwardingState | None:
        """The state by which compiled code may forward messages as `handle` would; None: it may not."""
        context, counts = self._context, self._parts.message_counts()
        if not context.content.compiled or counts is None or len(counts) > 1:
            return None
        return ForwardingState(
            self.node,
            context.tables,
            self._routing,
            self._scheme,
            counts[0] if counts else None,
            self._service.deciding_predicates(),
            self._messages.delivered,
            self._messages,
        )

    @property
    def sends_messages(self) -> bool:
        """See `router.protocol.service.Service`."""
        return self._service.sends_messages

    @property
    def delivers(self) -> bool:
        """Whether a message is being compared with the predicates of applications, turn by turn."""
        return self._messages.busy

    @property
    def full(self) -> bool:
        """Whether no further message of a neighbour should be read: many wait to be delivered."""
        return self._messages.full

    @property
    def engine_bytes(self) -> int | None:
        """The memory of the matching engine, in bytes; None: the engine does not count it."""
        return self._routing.engine_bytes

    def deliver_waiting(self) -> list[Action]:
        """Delivers the messages that wait (`delivers`), however long that takes."""
        return self._messages.deliver_waiting()

    def session(self, number: int) -> Session:
        """A newly connected application, of the service that this router offers."""
        return self._service.session(number, self._context.content)

    def next_deadline(self) -> float | None:
        """The time at which a `Tick` is due, which may have passed; None: not before something comes in."""
        # Compiled code that forwards messages is back before the next step.
        return self._context.now if self._parts.busy else self._parts.next_deadline()

    # Events.

    def handle(self, event: Event, now: float) -> list[Action]:
        """Takes one event at time `now` (seconds, monotonic).

        Returns what to do, in order.

        An event that no part of this router takes changes nothing.
        """
        self._context.now = now
        handler = self._events.get(type(event))
        return handler(event, now) if handler is not None else []

    def _set_apart(self) -> None:
        """Lets the service's frames, events and ticks leave all other parts alone."""
        parts, frames = self._parts, self._frames
        # Bits: an enumeration computes its hash in Python.
        types = sum(1 << kind for kind in self._service.frames())
        signatures, received = self._context.signatures, self._intake.frame_received
        parts.set_apart(self._service)

        def others(handler: EventHandler) -> EventHandler:
            def handle(event: Event, now: float) -> list[Action]:
                parts.forget()
                return handler(event, now)

            return handle

        def frame_received(event: FrameReceived, now: float) -> list[Action]:
            if types >> event.frame.type & 1 and not signatures.asked_for:
                return frames.from_router(event, now)
            parts.forget()
            return received(event, now)

        own = {*self._service.events(), Tick}
        self._events = {kind: each if kind in own else others(each) for kind, each in self._events.items()}
        self._events[FrameReceived] = frame_received

    def _controller_frame(self, event: ControllerFrame, now: float) -> list[Action]:
        if self._context.refuses(event.frame, CONTROLLER, CONTROLLER):
            return []
        return self._frames.from_controller(event.frame, now)

    def _tick(self, _event: Tick, now: float) -> list[Action]:
        # A UR that is due unites what other routers sent.
        with self._routing.bounded(self.options.turn_pairs):
            return self._parts.tick(now)

    def _settle(self, _event: Settle, _now: float) -> list[Action]:
        self._parts.settle()
        return []
