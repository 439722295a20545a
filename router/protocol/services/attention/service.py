"""The attention-limited service: `[service] kind = "attention"` (docs/explanation/attention.md).

Diallo, Fdida and Spathis, "Towards Extreme Scale Content-Based Networking for the Next Generation Internet"
(the attention paper). Applications register subscriptions with a maximum, a lifetime and a freshness, and
upload publications; routers cache publications and send them where a subscription needs them. The service has
frames of its own beside those of the routing scheme, whose predicates stay empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from router.content import Content, shown
from router.options import SECONDS_MAX
from router.predicates import Message
from router.protocol.broadcast import Branch
from router.protocol.context import Context, earlier
from router.protocol.events import Action, ApplicationGone, Refused, ServiceEvent
from router.protocol.routing import RoutingTable
from router.protocol.services import (
    Command,
    Request,
    RequestError,
    Service,
    Session,
    integer_in,
    seconds_in,
)
from router.protocol.services import Handle as HandleEvent
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
from router.protocol.services.attention.pacing import Pacing
from router.protocol.services.attention.relay import Relay
from router.protocol.services.attention.rounds import Homes, State
from router.wire.attention import MAX_PUBLICATION_BYTES
from router.wire.frames import Frame
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
        paced = state.options.pace_mbps is not None
        self._pacing = Pacing(context, state.table, state.options) if paced else None

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
