"""The socket commands of the attention-limited service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from router.options import SECONDS_MAX
from router.predicates.model import Message
from router.protocol.attention.events import (
    Refresh,
    Register,
    Registered,
    Unregister,
    Unregistered,
    Upload,
    Uploaded,
)
from router.protocol.events import Action, Refused, ServiceEvent
from router.protocol.service import Command, Handle, Request, RequestError, Session
from router.protocol.services.requests import integer_in, seconds_in
from router.wire.attention import MAX_PUBLICATION_BYTES
from router.wire.message import encode_message

#: Of the attributes of a PUB; beside them it has its homes.
_MESSAGE_BYTES = MAX_PUBLICATION_BYTES // 2
_U32_MAX, _U64_MAX = 2**32 - 1, 2**64 - 1


class AttentionSession(Session):
    """The commands `register`, `refresh`, `unregister` and `publish`."""

    def commands(self) -> Mapping[str, Command]:
        return {
            "register": self._register,
            "refresh": self._refresh,
            "unregister": self._unregister,
            "publish": self._publish,
        }

    def _register(self, request: Request, handle: Handle) -> tuple[dict[str, Any], Iterable[Action]]:
        refreshed = request.get("refreshed", False)
        if not isinstance(refreshed, bool):
            raise RequestError(f"refreshed: expected true or false, got {refreshed!r}")
        event = Register(
            self.number,
            self.content.requested_predicate(request),
            integer_in(request, "max", 1, _U32_MAX),
            seconds_in(request, "lifetime_s", SECONDS_MAX),
            seconds_in(request, "freshness_s", SECONDS_MAX),
            refreshed,
        )
        return _answered(event, handle)

    def _refresh(self, request: Request, handle: Handle) -> tuple[dict[str, Any], Iterable[Action]]:
        return _answered(Refresh(self.number, integer_in(request, "subscription", 0, _U64_MAX)), handle)

    def _unregister(self, request: Request, handle: Handle) -> tuple[dict[str, Any], Iterable[Action]]:
        return _answered(Unregister(self.number, integer_in(request, "subscription", 0, _U64_MAX)), handle)

    def _publish(self, request: Request, handle: Handle) -> tuple[dict[str, Any], Iterable[Action]]:
        message = self.content.requested_message(request)
        size = len(encode_message(message)) if isinstance(message, Message) else 0
        if size > _MESSAGE_BYTES:
            raise RequestError(f"attributes: {size} bytes in a PUB; at most {_MESSAGE_BYTES}")
        return _answered(Upload(self.number, message), handle)


def _answered(event: ServiceEvent, handle: Handle) -> tuple[dict[str, Any], Iterable[Action]]:
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
