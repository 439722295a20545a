"""The records of applications that a router writes: their fields, and the writer of the file.

A router records the requests that it served, the messages that it handed over, and the connections that
ended. The records of a run are the evidence of oracle and accounting on what applications did: no application
has to keep a log. Times are wall clock in nanoseconds since 1970 UTC, read by the router.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from router.predicates.model import Value
from router.predicates.parser import parse_message
from router.records.json_file import json_line

#: Wall seconds for which a record may wait in memory.
DELAY_S = 0.1
#: Bytes of records that are written without waiting.
_CHUNK = 65_536
#: Bytes of records that are kept while the file cannot be written; further records are lost.
_MOST_WAITING = 4 * 1024 * 1024
#: Wall seconds between two attempts to write a file that could not be written.
_RETRY_S = 1.0


class ApplicationConnected(TypedDict):
    """An application has connected.

    The record is written with the first other record of the application: a connection that only asks for
    the status leaves no record.
    """

    event: Literal["connect"]
    t_ns: Annotated[int, "when the router accepted the connection"]
    node: Annotated[int, "node of the application"]
    app: Annotated[str, "name of the application, unique at its node"]


class PredicateSet(TypedDict):
    """An application has replaced its declared predicate; its subscriptions stay."""

    event: Literal["set_predicate"]
    t_ns: Annotated[int, "when the predicate was in force at the router"]
    node: Annotated[int, "node of the application"]
    app: Annotated[str, "name of the application"]
    requested_ns: Annotated[int, "when the router read the request"]
    predicate: Annotated[str, "the predicate as the application wrote it, in the readable notation"]


class Subscribed(TypedDict):
    """An application has added a predicate to those that it has in force."""

    event: Literal["subscribe"]
    t_ns: Annotated[int, "when the predicate was in force at the router"]
    node: Annotated[int, "node of the application"]
    app: Annotated[str, "name of the application"]
    requested_ns: Annotated[int, "when the router read the request"]
    subscription: Annotated[int, "number of the subscription, unique for the connection"]
    predicate: Annotated[str, "the predicate as the application wrote it, in the readable notation"]


class Unsubscribed(TypedDict):
    """An application has revoked a subscription, or all of them."""

    event: Literal["unsubscribe"]
    t_ns: Annotated[int, "when the predicate was no longer in force at the router"]
    node: Annotated[int, "node of the application"]
    app: Annotated[str, "name of the application"]
    requested_ns: Annotated[int, "when the router read the request"]
    subscription: NotRequired[Annotated[int, "number of the subscription; absent: all subscriptions"]]


class MessageSent(TypedDict):
    """A router has accepted a message of an application."""

    event: Literal["send_message"]
    t_ns: Annotated[int, "when the router had accepted the message"]
    node: Annotated[int, "node of the application"]
    app: Annotated[str, "name of the application"]
    requested_ns: Annotated[int, "when the router read the request"]
    source: Annotated[int, "node that originates the message"]
    seq: Annotated[int, "sequence number of the message, 64 bits, unsigned"]
    attributes: Annotated[Mapping[str, Value], "the message: name of the attribute -> value"]


class MessageDelivered(TypedDict):
    """A router has handed a message over to an application: the socket has taken all of its bytes."""

    event: Literal["deliver"]
    t_ns: Annotated[int, "when the socket of the application had taken the message"]
    node: Annotated[int, "node of the application"]
    app: Annotated[str, "name of the application"]
    source: Annotated[int, "node that originated the message"]
    seq: Annotated[int, "sequence number of the message, 64 bits, unsigned"]


class MessageLost(TypedDict):
    """A message for an application whose connection ended before the socket had taken the message."""

    event: Literal["lose"]
    t_ns: Annotated[int, "when the router noticed the end of the connection"]
    node: Annotated[int, "node of the application"]
    app: Annotated[str, "name of the application"]
    source: Annotated[int, "node that originated the message"]
    seq: Annotated[int, "sequence number of the message, 64 bits, unsigned"]


class ApplicationDisconnected(TypedDict):
    """The connection of an application has ended, and all of its predicates are withdrawn.

    Connections that the router ends when it stops have no such record.
    """

    event: Literal["disconnect"]
    t_ns: Annotated[int, "when the predicates of the application were withdrawn"]
    node: Annotated[int, "node of the application"]
    app: Annotated[str, "name of the application"]
    requested_ns: Annotated[int, "when the router noticed the end of the connection"]


ApplicationEvent = (
    ApplicationConnected
    | PredicateSet
    | Subscribed
    | Unsubscribed
    | MessageSent
    | MessageDelivered
    | MessageLost
    | ApplicationDisconnected
)

#: Name of the event -> its record.
APPLICATION_EVENTS: dict[str, type] = {
    "connect": ApplicationConnected,
    "set_predicate": PredicateSet,
    "subscribe": Subscribed,
    "unsubscribe": Unsubscribed,
    "send_message": MessageSent,
    "deliver": MessageDelivered,
    "lose": MessageLost,
    "disconnect": ApplicationDisconnected,
}
#: Requests that are recorded -> the fields that the record takes from the request, or from the answer.
_REQUESTS: Mapping[str, tuple[str, ...]] = {
    "set_predicate": ("predicate",),
    "subscribe": ("subscription", "predicate"),
    "unsubscribe": ("subscription",),
    "send_message": ("source", "seq", "attributes"),
}
#: Values of `op` of the requests that are recorded.
SERVED = frozenset(_REQUESTS)


class ApplicationRecords:
    """Writes the records of the applications of one router, or of a whole simulation, to a file.

    Records wait in memory for at most `DELAY_S`, if `tick` is called when it is due. While the file cannot be
    written, on a full disk for instance, they wait longer; what finds no room is counted.

    Args:
        path: the file; records are appended.
        failed: is called with the error when the file cannot be written, and not again before it could be.

    Attributes:
        lost: records that have not been written and never will be.
    """

    def __init__(self, path: Path | str, failed: Callable[[OSError], None]) -> None:
        self.lost = 0
        self._failed = failed
        self._failing = False
        self._waiting = bytearray()
        #: When the waiting records are to be written, by `time.monotonic`; None: no record waits.
        self._due: float | None = None
        self._file = -1
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            failed(error)

    # The events.

    def connected(self, t_ns: int, node: int, app: str) -> None:
        """See `ApplicationConnected`."""
        self.write(ApplicationConnected(event="connect", t_ns=t_ns, node=node, app=app))

    def served(
        self,
        t_ns: int,
        node: int,
        app: str,
        requested_ns: int,
        request: Mapping[str, Any],
        answer: Mapping[str, Any],
    ) -> None:
        """Records a request of `SERVED` that the router has served.

        Args:
            request, answer: as on the application socket (docs/application-socket.md).
        """
        op = request["op"]
        record = {"event": op, "t_ns": t_ns, "node": node, "app": app, "requested_ns": requested_ns}
        for field in _REQUESTS[op]:
            value = answer.get(field, request.get(field))
            if value is None and field == "attributes":
                value = parse_message(request["message"])
            if value is not None:
                record[field] = value
        self._append(json_line(record).encode("ascii"))

    def delivered(self, t_ns: int, node: int, app: str, source: int, seq: int) -> None:
        """See `MessageDelivered`."""
        # The one record on the path of messages: formatted in a third of the time that `json.dumps` takes.
        head = delivery_head(node, app).decode("ascii")
        self._append(f'{{"event":"deliver","t_ns":{t_ns}{head}{source},"seq":{seq}}}\n'.encode("ascii"))

    def extend(self, lines: bytes, since: float) -> None:
        """Appends records of deliveries that compiled code has written (`router.forwarding.delivery`).

        Args:
            since: when the first of them was written, by `time.monotonic`.
        """
        if self._append(lines) and self._due is not None:
            self._due = min(self._due, since + DELAY_S)

    def undelivered(self, t_ns: int, node: int, app: str, source: int, seq: int) -> None:
        """See `MessageLost`."""
        self.write(MessageLost(event="lose", t_ns=t_ns, node=node, app=app, source=source, seq=seq))

    def disconnected(self, t_ns: int, node: int, app: str, noticed_ns: int) -> None:
        """See `ApplicationDisconnected`."""
        self.write(
            ApplicationDisconnected(
                event="disconnect", t_ns=t_ns, node=node, app=app, requested_ns=noticed_ns
            )
        )

    def write(self, event: ApplicationEvent) -> None:
        """Appends an event."""
        self._append(json_line(event).encode("ascii"))

    # The file.

    def next_deadline(self) -> float | None:
        """Returns the time (`time.monotonic`) at which `tick` is to be called, or None."""
        return self._due

    def tick(self, now: float) -> None:
        """Writes the records that have waited long enough."""
        if self._due is not None and now >= self._due:
            self.flush()

    def flush(self) -> None:
        """Writes the records that wait, as far as the file system takes them."""
        if self._file < 0:
            return
        try:
            while self._waiting:
                # The rest of a record that was written in part follows at the next attempt.
                del self._waiting[: os.write(self._file, self._waiting)]
        except OSError as error:
            self._due = time.monotonic() + _RETRY_S
            if not self._failing:
                self._failing = True
                self._failed(error)
        else:
            self._due = None
            self._failing = False

    def close(self) -> None:
        """Writes the records that wait and closes the file; a second call does nothing."""
        self.flush()
        self.lost += self._waiting.count(b"\n")
        self._waiting.clear()
        self._due = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _append(self, lines: bytes) -> bool:
        """Appends whole lines. Returns False if they are lost."""
        if self._file < 0 or (self._failing and len(self._waiting) + len(lines) > _MOST_WAITING):
            self.lost += lines.count(b"\n")
            return False
        self._waiting += lines
        if self._due is None:
            self._due = time.monotonic() + DELAY_S
        if len(self._waiting) > _CHUNK and not self._failing:
            self.flush()
        return True


def delivery_head(node: int, app: str) -> bytes:
    """The part of a record of a delivery between the time and the source."""
    return f',"node":{node},"app":{json.dumps(app)},"source":'.encode("ascii")
