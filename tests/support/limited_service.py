"""A service for tests: an application gets at most so many messages in a window of time.

It has what a service may have: an event and a socket command of its own (`quota`), a part with a timer that
opens the next window, and a choice among the applications that a message matches.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from router.content.base import Content
from router.predicates.model import Message
from router.protocol.context import Context, Part
from router.protocol.core.dispatch import EVENTS
from router.protocol.events import Action, ServiceEvent
from router.protocol.options import SERVICES
from router.protocol.routing import RoutingTable
from router.protocol.services.base import Command, Handle, Request, RequestError, Session
from router.protocol.services.exhaustive import Exhaustive, ExhaustiveSession
from router.recording.events import BY_CODE, FORMATS, EventFormat

NAME = "limited"
#: Messages that an application gets in a window, unless it has set a quota.
QUOTA = 2
#: Seconds of a window, from the first epoch on.
WINDOW = 10.0


@dataclass(frozen=True, slots=True)
class SetQuota(ServiceEvent):
    """An application sets how many messages it gets in a window."""

    app: int
    messages: int


class _Windows(Part):
    """Empties the counts of deliveries at the end of each window."""

    def __init__(self) -> None:
        self.delivered: Counter[int] = Counter()
        self._ends_at: float | None = None

    def next_deadline(self) -> float | None:
        return self._ends_at

    def epoch_changed(self, now: float, first: bool) -> list[Action]:
        if first:
            self._ends_at = now + WINDOW
        return []

    def tick(self, now: float) -> list[Action]:
        if self._ends_at is not None and now >= self._ends_at:
            self.delivered.clear()
            self._ends_at = now + WINDOW
        return []

    def settle(self) -> None:
        self._ends_at = None


class Limited(Exhaustive):
    """At most a quota of messages for each application and window."""

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        super().__init__(context, routing)
        self._windows = _Windows()
        self._quotas: dict[int, int] = {}

    def parts(self) -> Sequence[Part]:
        return (*super().parts(), self._windows)

    def receivers(self, message: Message) -> tuple[int, ...]:
        delivered = self._windows.delivered
        apps = tuple(
            app for app in super().receivers(message) if delivered[app] < self._quotas.get(app, QUOTA)
        )
        delivered.update(apps)
        return apps

    @classmethod
    def session(cls, number: int, content: Content) -> Session:
        return LimitedSession(number, content)

    def set_quota(self, event: SetQuota, _now: float) -> list[Action]:
        self._quotas[event.app] = event.messages
        return []


class LimitedSession(ExhaustiveSession):
    """Adds the command `{"op": "quota", "messages": n}`."""

    def commands(self) -> Mapping[str, Command]:
        return {**super().commands(), "quota": self._quota}

    def _quota(self, request: Request, handle: Handle) -> tuple[dict[str, Any], Iterable[Action]]:
        messages = request.get("messages")
        if type(messages) is not int or messages < 0:
            raise RequestError(f"messages: expected a number of messages, got {messages!r}")
        return {"ok": True}, handle(SetQuota(self.number, messages))


_PAIR = struct.Struct("<II")
_QUOTA_FORMAT = EventFormat[SetQuota](
    60,
    lambda event, _wire: _PAIR.pack(event.app, event.messages),
    lambda data: SetQuota(*_PAIR.unpack(data)),
    lambda event: f"application {event.app}: quota {event.messages}",
)


@contextmanager
def registered() -> Iterator[None]:
    """The service is registered within the block."""
    SERVICES.register(NAME, Limited)
    FORMATS[SetQuota] = BY_CODE[_QUOTA_FORMAT.code] = _QUOTA_FORMAT
    EVENTS[SetQuota] = Limited.set_quota
    try:
        yield
    finally:
        del EVENTS[SetQuota]
        del FORMATS[SetQuota], BY_CODE[_QUOTA_FORMAT.code]
        SERVICES.unregister(NAME)
