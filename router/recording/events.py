"""Events of the protocol core as bytes and as text, one row of a table for each type.

A service that adds events (`router.protocol.events.ServiceEvent`) adds a row for each: `register_event`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from router.predicates.printer import format_message, format_predicate
from router.protocol.events import (
    ApplicationGone,
    ControllerFrame,
    Event,
    FrameReceived,
    HandlingTime,
    RequestUpdate,
    SendMessage,
    SetPredicate,
    Settle,
    Started,
    Tick,
)
from router.recording.contents import (
    FRAME_RECEIVED,
    describe_frame,
    message_json,
    predicate_json,
    read_message,
    read_predicate,
    read_whole_frame,
)
from router.records.json_file import to_json
from router.wire.codec import WholeFrame, whole_frame

_U32 = struct.Struct("<I")
_F64 = struct.Struct("<d")
#: Types of records of the events of services; those of this module are below, the others are in `file`.
SERVICE_EVENTS = range(32, 64)

E = TypeVar("E", bound=Event)


@dataclass(frozen=True)
class EventFormat(Generic[E]):
    """The format of the events of a type.

    Attributes:
        code: the number of the type in a recording.
        encode: returns the content, from the event and its frame as received (None: encode the frame).
        decode: returns the event of a content. Raises ValueError, struct.error or TypeError for another
            format.
        describe: returns the event on one line, for people.
    """

    code: int
    encode: Callable[[E, WholeFrame | None], bytes]
    decode: Callable[[bytes], E]
    describe: Callable[[E], str]


def _number(data: bytes) -> int:
    return int(_U32.unpack_from(data)[0])


def _plain(code: int, event: E) -> EventFormat[E]:
    """Returns the format of a type whose events are all equal."""
    name = type(event).__name__.lower()
    return EventFormat(code, lambda _event, _wire: b"", lambda _data: event, lambda _event: name)


def _sorted_or_none(interfaces: frozenset[int] | None) -> list[int] | None:
    return None if interfaces is None else sorted(interfaces)


def _set_or_none(numbers: list[int] | None) -> frozenset[int] | None:
    return None if numbers is None else frozenset(numbers)


def listed(numbers: Iterable[int]) -> str:
    """Returns numbers in ascending order as text."""
    return ", ".join(map(str, sorted(numbers)))


def _through(event: RequestUpdate) -> str:
    where = "every interface" if event.interfaces is None else f"interfaces {listed(event.interfaces)}"
    return f"request update through {where}"


_FORMATS: dict[type, EventFormat[Any]] = {
    Started: _plain(1, Started()),
    Tick: _plain(2, Tick()),
    FrameReceived: EventFormat[FrameReceived](
        FRAME_RECEIVED,
        lambda event, wire: b"".join((_U32.pack(event.sender), *(wire or whole_frame(event.frame)))),
        lambda data: FrameReceived(_number(data), read_whole_frame(data[4:])),
        lambda event: f"from node {event.sender}: {describe_frame(event.frame)}",
    ),
    ControllerFrame: EventFormat[ControllerFrame](
        4,
        lambda event, wire: b"".join(wire or whole_frame(event.frame)),
        lambda data: ControllerFrame(read_whole_frame(data)),
        lambda event: f"from the controller: {describe_frame(event.frame)}",
    ),
    SetPredicate: EventFormat[SetPredicate](
        5,
        lambda event, _wire: _U32.pack(event.app) + predicate_json(event.predicate),
        lambda data: SetPredicate(_number(data), read_predicate(data[4:])),
        lambda event: f"application {event.app}: set_predicate {format_predicate(event.predicate)}",
    ),
    SendMessage: EventFormat[SendMessage](
        6,
        lambda event, _wire: _U32.pack(event.app) + message_json(event.message),
        lambda data: SendMessage(_number(data), read_message(data[4:])),
        lambda event: f"application {event.app}: send_message {format_message(event.message)}",
    ),
    ApplicationGone: EventFormat[ApplicationGone](
        7,
        lambda event, _wire: _U32.pack(event.app),
        lambda data: ApplicationGone(_number(data)),
        lambda event: f"application {event.app} left",
    ),
    RequestUpdate: EventFormat[RequestUpdate](
        8,
        lambda event, _wire: to_json(_sorted_or_none(event.interfaces)),
        lambda data: RequestUpdate(_set_or_none(json.loads(data))),
        _through,
    ),
    Settle: _plain(9, Settle()),
    HandlingTime: EventFormat[HandlingTime](
        10,
        lambda event, _wire: _F64.pack(event.seconds),
        lambda data: HandlingTime(_F64.unpack(data)[0]),
        lambda event: f"that took {event.seconds * 1e6:.0f} us",
    ),
}
_BY_CODE: dict[int, EventFormat[Any]] = {known.code: known for known in _FORMATS.values()}


def register_event(event_type: type[E], event_format: EventFormat[E]) -> None:
    """Adds the format of a service's event.

    Raises:
        ValueError: the code is outside `SERVICE_EVENTS`, or taken.
    """
    code = event_format.code
    if code not in SERVICE_EVENTS or code in _BY_CODE:
        raise ValueError(f"{event_type.__name__}: code {code} is taken or outside 32..63")
    _FORMATS[event_type] = _BY_CODE[code] = event_format


def unregister_event(event_type: type[Event]) -> None:
    """Removes the format of a service's event.

    Raises KeyError if there is none.
    """
    del _BY_CODE[_FORMATS.pop(event_type).code]


def is_event(code: int) -> bool:
    """Returns whether a record type is that of an event."""
    return code in _BY_CODE


def encode_event(event: Event, wire: WholeFrame | None) -> tuple[int, bytes]:
    """Encodes an event as its code and content.

    Args:
        wire: the event's frame as received (None: encode the frame).

    Raises:
        KeyError: the type of the event has no format.
    """
    known = _FORMATS[type(event)]
    return known.code, known.encode(event, wire)


def decode_event(code: int, data: bytes) -> Event:
    """Decodes the output of `encode_event`.

    Raises:
        ValueError: the content is not of the format of that code.
        KeyError: no event has that code.
    """
    known = _BY_CODE[code]
    try:
        event: Event = known.decode(data)
    except (struct.error, TypeError) as error:
        raise ValueError(f"event {code}: {error}") from error
    return event


def describe_event(event: Event) -> str:
    """Describes an event on one line."""
    known = _FORMATS.get(type(event))
    return type(event).__name__.lower() if known is None else known.describe(event)
