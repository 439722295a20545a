"""The attention-limited service: `[service] kind = "attention"` (docs/attention.md).

Diallo, Fdida and Spathis, "Towards Extreme Scale Content-Based Networking for the Next Generation Internet"
(the attention paper). Applications register subscriptions with a maximum, a lifetime and a freshness, and
upload publications; routers cache publications and send them where a subscription needs them. The service has
frames of its own beside those of the routing scheme, whose predicates stay empty.
"""

from __future__ import annotations

from collections.abc import Mapping

from router.content.base import Content
from router.predicates.model import Message
from router.protocol.attention.events import Refresh, Register, Unregister, Upload
from router.protocol.attention.flush_intake import FlushIntake
from router.protocol.attention.flushing import Flushing
from router.protocol.attention.homes import Homes
from router.protocol.attention.options import AttentionOptions
from router.protocol.attention.pacing import Pacing
from router.protocol.attention.relay import Relay
from router.protocol.attention.session import AttentionSession
from router.protocol.attention.state import State
from router.protocol.clock import earlier
from router.protocol.context import Context
from router.protocol.events import Action, ApplicationGone
from router.protocol.frame_table import FrameHandler, FromNeighbour, Handle, OnTree
from router.protocol.messages import Messages
from router.protocol.parts import EventHandler
from router.protocol.routing import RoutingTable
from router.protocol.service import Service, Session
from router.wire.frames import FrameType, Overload, Publication, Subscription


class Attention(Service):
    """The service at one router.

    Attributes:
        state: its memory.
    """

    options = AttentionOptions
    sends_messages = False
    keeps_records = True
    apart = True

    def __init__(self, context: Context, routing: RoutingTable, messages: Messages) -> None:
        super().__init__(context, routing, messages)
        self.state = state = State(context)
        self._homes = Homes(state)
        self._flushing = Flushing(state)
        self._relay = Relay(state, self._homes, self._flushing)
        self._intake = FlushIntake(state, self._relay, self._flushing)
        paced = state.options.pace_mbps is not None
        self._pacing = Pacing(context, state.table, state.options) if paced else None

    def events(self) -> Mapping[type, EventHandler]:
        handlers: Mapping[type, EventHandler] = {
            Register: self._homes.register,
            Refresh: self._homes.refresh,
            Unregister: self._homes.unregister,
            ApplicationGone: self._homes.application_gone,
            Upload: self._relay.upload,
        }
        return {event: self._paced_event(handler) for event, handler in handlers.items()}

    def frames(self) -> Mapping[FrameType, FrameHandler]:
        return {
            FrameType.SUB: OnTree((Subscription,), self._paced(self._relay.sub_received)),
            FrameType.PUB: OnTree((Publication,), self._paced(self._relay.pub_received)),
            FrameType.OVERLOAD: OnTree((Overload,), self._paced(self._relay.overload_received)),
            FrameType.FLUSH: FromNeighbour((Publication,), self._paced(self._intake.received)),
        }

    @property
    def idle(self) -> bool:
        waits = self._pacing is not None and not self._pacing.idle
        return self._homes.idle and self._flushing.idle and self.state.turns.idle and not waits

    def next_deadline(self) -> float | None:
        state = self.state
        at = state.turns.next_deadline()
        if at is None:
            at = earlier(state.timers.next_deadline(), state.table.next_deadline())
        return at if self._pacing is None else earlier(at, self._pacing.next_deadline())

    def tick(self, now: float) -> list[Action]:
        state = self.state
        state.table.tick(now)
        actions = state.timers.tick(now, lambda: state.compared)
        actions += state.turns.tick(now)
        if self._pacing is None:
            return actions
        # What waits goes before what is new.
        waited = self._pacing.tick(now)
        return waited + self._pacing.paced(actions, now)

    def epoch_changed(self, now: float, first: bool) -> list[Action]:  # noqa: ARG002
        actions = self._homes.epoch_changed(now)
        return actions if self._pacing is None else self._pacing.paced(actions, now)

    def _paced(self, handle: Handle) -> Handle:
        """The handler of a frame, whose PUBs may wait at an interface."""
        pacing = self._pacing
        if pacing is None:
            return handle
        return lambda place, frame, now: pacing.paced(handle(place, frame, now), now)

    def _paced_event(self, handle: EventHandler) -> EventHandler:
        pacing = self._pacing
        if pacing is None:
            return handle
        return lambda event, now: pacing.paced(handle(event, now), now)

    def settle(self) -> None:
        self.state.settled = True

    def receivers(self, message: Message) -> tuple[int, ...]:  # noqa: ARG002
        """No application: the service has no messages, and p0 is empty."""
        return ()

    @classmethod
    def session(cls, number: int, content: Content) -> Session:
        return AttentionSession(number, content)
