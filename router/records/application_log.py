"""The log of applications: the record of each event, and the writer of the file.

Every application of a run writes to one file, `RunLayout.applications_log` of `captures.rundir.layout`. Times
are wall clock in nanoseconds since 1970 UTC.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Literal, NotRequired, Self, TypedDict

from router.predicates.model import Predicate, Value
from router.predicates.printer import format_predicate, predicate_to_json
from router.records.json_file import json_line


class PredicateSet(TypedDict):
    """A router has confirmed a new predicate of an application, or an application has left."""

    event: Literal["set_predicate"]
    t_ns: Annotated[int, "when the router had confirmed the predicate"]
    node: Annotated[int, "node of the application"]
    app: Annotated[str, "name of the application, unique at its node"]
    requested_ns: Annotated[int, "when the application asked for the predicate"]
    predicate: Annotated[str, "the whole predicate in force from then on, in the readable notation"]
    filters: Annotated[
        list[list[list[Any]]],
        "the same predicate as `[[[name, type, operator, value], ...], ...]`; empty when the application "
        "leaves",
    ]
    op: NotRequired[
        Annotated[
            str,
            "`subscribe` or `unsubscribe` if a subscription changed the predicate; `left` if the application "
            "ended without a line of its own, and the runner wrote the line from the log of the router",
        ]
    ]
    subscription: NotRequired[Annotated[int, "number of the subscription that changed"]]


class MessageSent(TypedDict):
    """A router has accepted a message of an application."""

    event: Literal["send_message"]
    t_ns: Annotated[int, "when the router had accepted the message"]
    node: Annotated[int, "node of the application"]
    app: Annotated[str, "name of the application"]
    requested_ns: Annotated[int, "when the application asked to send the message"]
    source: Annotated[int, "node that originates the message"]
    seq: Annotated[int, "sequence number of the message, 64 bits, unsigned"]
    attributes: Annotated[Mapping[str, Value], "the message: name of the attribute -> value"]


class MessageDelivered(TypedDict):
    """A router has handed a message to an application."""

    event: Literal["deliver"]
    t_ns: Annotated[int, "when the application received the message"]
    node: Annotated[int, "node of the application"]
    app: Annotated[str, "name of the application"]
    source: Annotated[int, "node that originated the message"]
    seq: Annotated[int, "sequence number of the message, 64 bits, unsigned"]


ApplicationEvent = PredicateSet | MessageSent | MessageDelivered

#: Name of the event -> its record.
APPLICATION_EVENTS: dict[str, type] = {
    "set_predicate": PredicateSet,
    "send_message": MessageSent,
    "deliver": MessageDelivered,
}


def predicate_set(
    t_ns: int,
    node: int,
    app: str,
    requested_ns: int,
    predicate: Predicate,
    op: str | None = None,
    subscription: int | None = None,
) -> PredicateSet:
    """The record of a predicate; `op` and `subscription` say which change made it (see `PredicateSet`)."""
    record = PredicateSet(
        event="set_predicate",
        t_ns=t_ns,
        node=node,
        app=app,
        requested_ns=requested_ns,
        predicate=format_predicate(predicate),
        filters=predicate_to_json(predicate),
    )
    if op is not None:
        record["op"] = op
    if subscription is not None:
        record["subscription"] = subscription
    return record


class ApplicationLog:
    """Appends events to the log of applications, to which several processes may append at the same time.

    Lines of several writers do not mix: each write to the file has whole lines only. A context manager.

    Args:
        path: the log; it need not exist.
        buffer_bytes: bytes of lines that are kept in memory before they are written; 0 writes each line at
            once.

    Raises:
        OSError: the log cannot be opened; from every method, that it cannot be written.
    """

    def __init__(self, path: Path, *, buffer_bytes: int = 0) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._buffer_bytes = buffer_bytes
        self._waiting = bytearray()

    def __call__(self, event: ApplicationEvent) -> None:
        """Appends one event."""
        self._waiting += json_line(event).encode("ascii")
        if len(self._waiting) > self._buffer_bytes:
            self.flush()

    def flush(self) -> None:
        """Writes the buffered lines."""
        while self._waiting:
            written = os.write(self._file, self._waiting)
            del self._waiting[:written]

    def close(self) -> None:
        """Writes the buffered lines and closes the log.

        A second call does nothing.
        """
        if self._file < 0:
            return
        try:
            self.flush()
        finally:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
