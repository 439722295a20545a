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
from router.protocol.attention.relay import Relay
from router.protocol.attention.session import AttentionSession
from router.protocol.attention.state import State
from router.protocol.context import Context
from router.protocol.events import Action, ApplicationGone
from router.protocol.frame_table import FrameHandler, FromNeighbour, OnTree
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

    def __init__(self, context: Context, routing: RoutingTable, messages: Messages) -> None:
        super().__init__(context, routing, messages)
        self.state = state = State(context)
        self._homes = Homes(state)
        self._flushing = Flushing(state)
        self._relay = Relay(state, self._homes, self._flushing)
        self._intake = FlushIntake(state, self._relay, self._flushing)

    def events(self) -> Mapping[type, EventHandler]:
        return {
            Register: self._homes.register,
            Refresh: self._homes.refresh,
            Unregister: self._homes.unregister,
            ApplicationGone: self._homes.application_gone,
            Upload: self._relay.upload,
        }

    def frames(self) -> Mapping[FrameType, FrameHandler]:
        return {
            FrameType.SUB: OnTree((Subscription,), self._relay.sub_received),
            FrameType.PUB: OnTree((Publication,), self._relay.pub_received),
            FrameType.OVERLOAD: OnTree((Overload,), self._relay.overload_received),
            FrameType.FLUSH: FromNeighbour((Publication,), self._intake.received),
        }

    @property
    def idle(self) -> bool:
        return self._homes.idle and self._flushing.idle and self.state.turns.idle

    def next_deadline(self) -> float | None:
        state = self.state
        return state.timers.next_deadline() if state.turns.idle else state.turns.next_deadline()

    def tick(self, now: float) -> list[Action]:
        state = self.state
        actions = state.timers.tick(now, lambda: state.cache.compared)
        return actions + state.turns.tick(now)

    def epoch_changed(self, now: float, first: bool) -> list[Action]:  # noqa: ARG002
        return self._homes.epoch_changed(now)

    def settle(self) -> None:
        self.state.settled = True

    def receivers(self, message: Message) -> tuple[int, ...]:  # noqa: ARG002
        """No application: the service has no messages, and p0 is empty."""
        return ()

    @classmethod
    def session(cls, number: int, content: Content) -> Session:
        return AttentionSession(number, content)
