"""The service of the protocol paper: every application gets every message that its predicate selects.

Protocol paper, section 2, and the stateful layer of the INFOCOM paper's section II (`subscribe`,
`unsubscribe`), which is the session's: the core knows `set_predicate` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

from router.content.base import Content
from router.predicates.model import Message, Predicate
from router.predicates.printer import format_predicate
from router.protocol.context import Context
from router.protocol.events import (
    Accepted,
    Action,
    ApplicationGone,
    PredicatePostponed,
    Refused,
    SendMessage,
    SetPredicate,
)
from router.protocol.parts import Part
from router.protocol.routing import RoutingTable
from router.protocol.service import Answer, Command, Handle, Request, RequestError, Service, Session, Steps
from router.protocol.services.applications import ApplicationPredicates
from router.protocol.services.predicate_changes import PredicateChanges
from router.protocol.services.subscriptions import Subscriptions


class Exhaustive(Service):
    """Predicates of applications make p0; a message goes to all whose predicate selects it."""

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        super().__init__(context, routing)
        self.predicates = ApplicationPredicates(routing, context.content, context.options.limits)
        self._changes = PredicateChanges(context, self.predicates)

    def parts(self) -> Sequence[Part]:
        return (self._changes,)

    def set_predicate(self, event: SetPredicate, now: float) -> list[Action]:
        """An application declares what it asks for, in place of what it has declared."""
        return self._changes.set(event.app, event.predicate, now)

    def application_gone(self, event: ApplicationGone, now: float) -> list[Action]:
        return self._changes.leave(event.app, now)

    def receivers(self, message: Message) -> tuple[int, ...]:
        return self.predicates.selecting(message)

    def search(self, message: Message) -> Iterator[None] | None:
        return self.predicates.search(message)

    def deciding_predicates(self) -> ApplicationPredicates:
        return self.predicates

    @classmethod
    def session(cls, number: int, content: Content) -> Session:
        return ExhaustiveSession(number, content)


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

    def _changed(self, handle: Handle, answer: dict[str, Any], undo: Callable[[], object]) -> Answer | Steps:
        """Gives the core the application's predicate; the core may need several turns, or refuse it."""
        actions = list(handle(SetPredicate(self.number, self._subscriptions.predicate)))
        for action in actions:
            if isinstance(action, PredicatePostponed):
                return _postponed(answer, undo)
            if isinstance(action, Refused):
                undo()
                raise RequestError(action.reason)
        return answer, actions

    def _read(self, request: Request, serve: Callable[[Predicate], Answer | Steps]) -> Answer | Steps:
        """Reads the predicate of a request, in steps if it is long, and serves the request with it."""
        reading = self.content.reading_predicate(request)
        try:
            next(reading)
        except StopIteration as end:
            return serve(end.value)
        return _read_on(reading, serve)

    def _set_predicate(self, request: Request, handle: Handle) -> Answer | Steps:
        return self._read(request, lambda predicate: self._declare(predicate, handle))

    def _declare(self, predicate: Predicate, handle: Handle) -> Answer | Steps:
        before = self._subscriptions.declared
        self._subscriptions.declare(predicate)
        return self._changed(handle, {"ok": True}, lambda: self._subscriptions.declare(before))

    def _subscribe(self, request: Request, handle: Handle) -> Answer | Steps:
        return self._read(request, lambda predicate: self._add(predicate, handle))

    def _add(self, predicate: Predicate, handle: Handle) -> Answer | Steps:
        self._subscribed += 1
        number = self._subscribed
        self._subscriptions.add(number, predicate)
        return self._changed(
            handle, {"ok": True, "subscription": number}, lambda: self._subscriptions.remove(number)
        )

    def _unsubscribe(self, request: Request, handle: Handle) -> Answer | Steps:
        if "subscription" not in request:
            self._subscriptions.clear()
        else:
            number = request["subscription"]
            # In JSON as in Python, true is no number.
            if type(number) is not int or number not in self._subscriptions.numbered:
                raise RequestError(f"subscription: {number!r} is none of this application's")
            self._subscriptions.remove(number)
        # What is left of a predicate that was taken is not refused.
        return self._changed(handle, {"ok": True}, lambda: None)

    def _list(self, _request: Request, _handle: Handle) -> Answer:
        numbered = self._subscriptions.numbered.items()
        return {
            "ok": True,
            "predicate": format_predicate(self._subscriptions.declared),
            "subscriptions": {str(number): format_predicate(predicate) for number, predicate in numbered},
        }, ()

    def _send_message(self, request: Request, handle: Handle) -> Answer:
        actions = list(handle(SendMessage(self.number, self.content.requested_message(request))))
        for action in actions:
            if isinstance(action, Accepted):
                return {"ok": True, "source": action.source, "seq": action.seq}, actions
            if isinstance(action, Refused):
                raise RequestError(action.reason)
        raise AssertionError("the core neither accepted nor refused a message")


def _read_on(
    reading: Generator[None, None, Predicate], serve: Callable[[Predicate], Answer | Steps]
) -> Steps:
    predicate: Predicate | None = None
    while predicate is None:
        yield False
        try:
            next(reading)
        except StopIteration as end:
            predicate = end.value
    result = serve(predicate)
    return (yield from result) if isinstance(result, Generator) else result


def _postponed(answer: dict[str, Any], undo: Callable[[], object]) -> Steps:
    """Waits until the core has set the predicate, or refused it."""
    action = yield True
    if isinstance(action, Refused):
        undo()
        raise RequestError(action.reason)
    return answer, ()
