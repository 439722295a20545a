"""Events of the protocol core and of its services as bytes and as text, one row of a table for each type."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_type_hints

from router.predicates import Message, Predicate
from router.predicates.printer import format_message, format_predicate, predicate_from_json, predicate_to_json
from router.protocol import events
from router.protocol.services.attention import Refresh, Register, Unregister, Upload
from router.recording import (
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

E = TypeVar("E", bound=events.Event)


@dataclass(frozen=True)
class EventFormat(Generic[E]):
    """The format of the events of a type.

    Attributes:
        code: the number of the type in a recording; `file` has those of other records.
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


def listed(numbers: Iterable[int]) -> str:
    """Returns numbers in ascending order as text."""
    return ", ".join(map(str, sorted(numbers)))


def _through(event: events.RequestUpdate) -> str:
    where = "every interface" if event.interfaces is None else f"interfaces {listed(event.interfaces)}"
    return f"request update through {where}"


def _fields(code: int, kind: type[E], describe: Callable[[E], str]) -> EventFormat[E]:
    """Returns the format of a type whose content is the list of its fields, in JSON."""
    types = get_type_hints(kind)
    made: dict[Any, Callable[[Any], Any]] = {Predicate: predicate_from_json, Message: Message}

    def encode(event: E, _wire: WholeFrame | None) -> bytes:
        values = [getattr(event, name) for name in types]
        return to_json([predicate_to_json(each) if isinstance(each, Predicate) else each for each in values])

    def decode(data: bytes) -> E:
        values = zip(json.loads(data), types.values(), strict=True)
        return kind(*(made[of](each) if of in made else each for each, of in values))

    return EventFormat(code, encode, decode, describe)


_FORMATS: dict[type, EventFormat[Any]] = {
    events.Started: _plain(1, events.Started()),
    events.Tick: _plain(2, events.Tick()),
    events.FrameReceived: EventFormat[events.FrameReceived](
        FRAME_RECEIVED,
        lambda event, wire: b"".join((_U32.pack(event.sender), *(wire or whole_frame(event.frame)))),
        lambda data: events.FrameReceived(_number(data), read_whole_frame(data[4:])),
        lambda event: f"from node {event.sender}: {describe_frame(event.frame)}",
    ),
    events.ControllerFrame: EventFormat[events.ControllerFrame](
        4,
        lambda event, wire: b"".join(wire or whole_frame(event.frame)),
        lambda data: events.ControllerFrame(read_whole_frame(data)),
        lambda event: f"from the controller: {describe_frame(event.frame)}",
    ),
    events.SetPredicate: EventFormat[events.SetPredicate](
        5,
        lambda event, _wire: _U32.pack(event.app) + predicate_json(event.predicate),
        lambda data: events.SetPredicate(_number(data), read_predicate(data[4:])),
        lambda event: f"application {event.app}: set_predicate {format_predicate(event.predicate)}",
    ),
    events.SendMessage: EventFormat[events.SendMessage](
        6,
        lambda event, _wire: _U32.pack(event.app) + message_json(event.message),
        lambda data: events.SendMessage(_number(data), read_message(data[4:])),
        lambda event: f"application {event.app}: send_message {format_message(event.message)}",
    ),
    events.ApplicationGone: EventFormat[events.ApplicationGone](
        7,
        lambda event, _wire: _U32.pack(event.app),
        lambda data: events.ApplicationGone(_number(data)),
        lambda event: f"application {event.app} left",
    ),
    events.RequestUpdate: EventFormat[events.RequestUpdate](
        8,
        lambda event, _wire: to_json(None if event.interfaces is None else sorted(event.interfaces)),
        lambda data: events.RequestUpdate(frozenset(json.loads(data)) if data != b"null" else None),
        _through,
    ),
    events.Settle: _plain(9, events.Settle()),
    events.HandlingTime: EventFormat[events.HandlingTime](
        10,
        lambda event, _wire: _F64.pack(event.seconds),
        lambda data: events.HandlingTime(_F64.unpack(data)[0]),
        lambda event: f"that took {event.seconds * 1e6:.0f} us",
    ),
    Register: _fields(
        32,
        Register,
        lambda event: (
            f"application {event.app}: register at most {event.max} in {event.lifetime_s:g} s, "
            f"no older than {event.freshness_s:g} s: {format_predicate(event.predicate)}"
        ),
    ),
    Refresh: _fields(33, Refresh, lambda event: f"application {event.app}: refresh {event.subscription}"),
    Unregister: _fields(
        34, Unregister, lambda event: f"application {event.app}: unregister {event.subscription}"
    ),
    Upload: _fields(
        35, Upload, lambda event: f"application {event.app}: publish {format_message(event.message)}"
    ),
}
_BY_CODE: dict[int, EventFormat[Any]] = {known.code: known for known in _FORMATS.values()}


def is_event(code: int) -> bool:
    return code in _BY_CODE


def encode_event(event: events.Event, wire: WholeFrame | None) -> tuple[int, bytes]:
    """Encodes an event as its code and content.

    Args:
        wire: the event's frame as received (None: encode the frame).

    Raises:
        KeyError: the type of the event has no format.
    """
    known = _FORMATS[type(event)]
    return known.code, known.encode(event, wire)


def decode_event(code: int, data: bytes) -> events.Event:
    """Decodes the output of `encode_event`.

    Raises:
        ValueError: the content is not of the format of that code.
        KeyError: no event has that code.
    """
    known = _BY_CODE[code]
    try:
        event: events.Event = known.decode(data)
    except (struct.error, TypeError) as error:
        raise ValueError(f"event {code}: {error}") from error
    return event


def describe_event(event: events.Event) -> str:
    known = _FORMATS.get(type(event))
    return type(event).__name__.lower() if known is None else known.describe(event)
