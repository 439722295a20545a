"""The service of the protocol paper: every application gets every message that its predicate selects.

Protocol paper, section 2, and the stateful layer of the INFOCOM paper's section II (`subscribe`,
`unsubscribe`), which is the session's: the core knows `set_predicate` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from router.content.base import Content
from router.predicates.model import Message, Predicate
from router.predicates.printer import format_predicate
from router.protocol.context import Context
from router.protocol.events import Accepted, Action, ApplicationGone, Refused, SendMessage, SetPredicate
from router.protocol.messages import Messages
from router.protocol.parts import EventHandler
from router.protocol.routing import RoutingTable
from router.protocol.service import Command, Handle, Request, RequestError, Service, Session
from router.protocol.services.applications import ApplicationPredicates
from router.protocol.services.subscriptions import Subscriptions


class Exhaustive(Service):
    """Predicates of applications make p0; a message goes to all whose predicate selects it."""

    def __init__(self, context: Context, routing: RoutingTable, messages: Messages) -> None:
        super().__init__(context, routing, messages)
        self.predicates = ApplicationPredicates(routing, context.content)

    def events(self) -> Mapping[type, EventHandler]:
        return {
            SetPredicate: lambda event, now: self._set(event.app, event.predicate, now),
            ApplicationGone: lambda event, now: self._set(event.app, self.context.content.nothing, now),
            SendMessage: lambda event, now: self.messages.submit(event.app, event.message, now),
        }

    def receivers(self, message: Message) -> tuple[int, ...]:
        return self.predicates.selecting(message)

    def deciding_predicates(self) -> ApplicationPredicates:
        return self.predicates

    @classmethod
    def session(cls, number: int, content: Content) -> Session:
        return ExhaustiveSession(number, content)

    def _set(self, app: int, predicate: Predicate, now: float) -> list[Action]:
        if not self.predicates.set(app, predicate):
            return []
        return self.context.parts.local_changed(now)


class ExhaustiveSession(Session):
    """The commands `set_predicate`, `subscribe`, `unsubscribe`, `subscriptions` and `send_message`."""

    def __init__(self, number: int, content: Content) -> None:
        super().__init__(number, content)
        self._subscriptions = Subscriptions(content)
        self._subscribed = 0

    def commands(self) -> Mapping[str, Command]:
        return {
            "set_predicate": self._set_predicate,
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "subscriptions": self._list,
            "send_message": self._send_message,
        }

    def _changed(self, handle: Handle) -> Iterable[Action]:
        """Gives the core the application's predicate."""
        return handle(SetPredicate(self.number, self._subscriptions.predicate))

    def _set_predicate(self, request: Request, handle: Handle) -> tuple[dict[str, Any], Iterable[Action]]:
        self._subscriptions.declare(self.content.requested_predicate(request))
        return {"ok": True}, self._changed(handle)

    def _subscribe(self, request: Request, handle: Handle) -> tuple[dict[str, Any], Iterable[Action]]:
        predicate = self.content.requested_predicate(request)
        self._subscribed += 1
        self._subscriptions.add(self._subscribed, predicate)
        return {"ok": True, "subscription": self._subscribed}, self._changed(handle)

    def _unsubscribe(self, request: Request, handle: Handle) -> tuple[dict[str, Any], Iterable[Action]]:
        if "subscription" not in request:
            self._subscriptions.clear()
            return {"ok": True}, self._changed(handle)
        number = request["subscription"]
        # In JSON as in Python, true is no number.
        if type(number) is not int or number not in self._subscriptions.numbered:
            raise RequestError(f"subscription: {number!r} is none of this application's")
        self._subscriptions.remove(number)
        return {"ok": True}, self._changed(handle)

    def _list(self, _request: Request, _handle: Handle) -> tuple[dict[str, Any], Iterable[Action]]:
        numbered = self._subscriptions.numbered.items()
        return {
            "ok": True,
            "predicate": format_predicate(self._subscriptions.declared),
            "subscriptions": {str(number): format_predicate(predicate) for number, predicate in numbered},
        }, ()

    def _send_message(self, request: Request, handle: Handle) -> tuple[dict[str, Any], Iterable[Action]]:
        actions = list(handle(SendMessage(self.number, self.content.requested_message(request))))
        for action in actions:
            if isinstance(action, Accepted):
                return {"ok": True, "source": action.source, "seq": action.seq}, actions
            if isinstance(action, Refused):
                raise RequestError(action.reason)
        raise AssertionError("the core neither accepted nor refused a message")
