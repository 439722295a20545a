"""Events and actions of the protocol core as bytes.

A frame stands there as on the wire, whole: the header of the Ethernet frame that completed it, and its body.
What is passed on is the frame that came in with one hop less, and a message that is delivered mostly the
one that came in: neither is written a second time.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from functools import lru_cache
from typing import Any

from router.predicates.model import Message
from router.predicates.printer import format_message, format_predicate, predicate_from_json, predicate_to_json
from router.protocol.events import (
    Accepted,
    Action,
    ApplicationGone,
    ControllerFrame,
    Deliver,
    Event,
    FrameReceived,
    HandlingTime,
    RequestUpdate,
    Send,
    SendMessage,
    SendToController,
    SetPredicate,
    Settle,
    Started,
    Tick,
)
from router.wire.codec import HEADER_LENGTH, decode_header, forwarded_frame, fragment
from router.wire.frames import Body, EncodedMessage, Frame, FrameType, Hello, SenderRequest
from router.wire.header import DecodeError
from router.wire.message import message_of

_U32 = struct.Struct("<I")
_F64 = struct.Struct("<d")
_U16_MAX = 65_535
_LARGEST_FRAGMENT = HEADER_LENGTH + _U16_MAX


class RecordingError(ValueError):
    """A recording that is missing, is none, or breaks the format; the message names the file."""


class EventKind(IntEnum):
    STARTED = 1
    TICK = 2
    FRAME = 3
    CONTROLLER_FRAME = 4
    SET_PREDICATE = 5
    SEND_MESSAGE = 6
    APPLICATION_GONE = 7
    REQUEST_UPDATE = 8
    SETTLE = 9
    HANDLING_TIME = 10


class _ActionKind(IntEnum):
    #: Send the frame that came in, with one hop less.
    FORWARD = 1
    SEND = 2
    SEND_TO_CONTROLLER = 3
    #: Deliver the message that the event brought.
    DELIVER = 4
    DELIVER_OTHER = 5
    ACCEPTED = 6
    REFUSED = 7


_FORWARD, _SEND, _SEND_TO_CONTROLLER = (
    bytes((kind,)) for kind in (_ActionKind.FORWARD, _ActionKind.SEND, _ActionKind.SEND_TO_CONTROLLER)
)
_DELIVER = struct.Struct("<BIQ")

# Frames.


def whole_frame(frame: Frame) -> bytes:
    """Header and whole body of a frame, whatever its length.

    Raises:
        ValueError: no router could send it (`router.wire.codec.fragment`).
    """
    payloads = fragment(frame, _LARGEST_FRAGMENT)
    if len(payloads) == 1:
        return payloads[0]
    return payloads[-1][:HEADER_LENGTH] + b"".join(payload[HEADER_LENGTH:] for payload in payloads)


def read_whole_frame(data: bytes) -> Frame:
    """Reads what `whole_frame` wrote, or a receiver put together. Raises ValueError."""
    return forwarded_frame(decode_header(data), data[HEADER_LENGTH:])


# Events.


def encode_event(event: Event, wire: bytes | None) -> tuple[EventKind, bytes]:
    """An event as kind and content.

    Args:
        wire: the bytes of the event's frame as it came in; None: they are made anew.
    """
    if isinstance(event, FrameReceived):
        return EventKind.FRAME, _U32.pack(event.sender) + (wire or whole_frame(event.frame))
    if isinstance(event, ControllerFrame):
        return EventKind.CONTROLLER_FRAME, wire or whole_frame(event.frame)
    if isinstance(event, Tick):
        return EventKind.TICK, b""
    if isinstance(event, HandlingTime):
        return EventKind.HANDLING_TIME, _F64.pack(event.seconds)
    if isinstance(event, SendMessage):
        return EventKind.SEND_MESSAGE, _U32.pack(event.app) + _json(event.message)
    if isinstance(event, SetPredicate):
        return EventKind.SET_PREDICATE, _U32.pack(event.app) + _json(predicate_to_json(event.predicate))
    if isinstance(event, ApplicationGone):
        return EventKind.APPLICATION_GONE, _U32.pack(event.app)
    if isinstance(event, RequestUpdate):
        asked = None if event.interfaces is None else sorted(event.interfaces)
        return EventKind.REQUEST_UPDATE, _json(asked)
    if isinstance(event, Settle):
        return EventKind.SETTLE, b""
    return EventKind.STARTED, b""


_READERS: dict[EventKind, Callable[[bytes], Event]] = {
    EventKind.STARTED: lambda _data: Started(),
    EventKind.TICK: lambda _data: Tick(),
    EventKind.FRAME: lambda data: FrameReceived(_number(data), read_whole_frame(data[4:])),
    EventKind.CONTROLLER_FRAME: lambda data: ControllerFrame(read_whole_frame(data)),
    EventKind.SET_PREDICATE: lambda data: SetPredicate(
        _number(data), predicate_from_json(json.loads(data[4:]))
    ),
    EventKind.SEND_MESSAGE: lambda data: SendMessage(_number(data), Message(json.loads(data[4:]))),
    EventKind.APPLICATION_GONE: lambda data: ApplicationGone(_number(data)),
    EventKind.REQUEST_UPDATE: lambda data: RequestUpdate(_interfaces_of(json.loads(data))),
    EventKind.SETTLE: lambda _data: Settle(),
    EventKind.HANDLING_TIME: lambda data: HandlingTime(_F64.unpack(data)[0]),
}


def decode_event(kind: EventKind, data: bytes) -> Event:
    """Reads what `encode_event` wrote.

    Raises:
        ValueError: the content is not of that kind.
    """
    try:
        return _READERS[kind](data)
    except (struct.error, TypeError) as error:
        raise ValueError(f"{kind.name}: {error}") from error


def _interfaces_of(numbers: list[int] | None) -> frozenset[int] | None:
    return None if numbers is None else frozenset(numbers)


# Actions.


def encode_actions(event: Event, actions: Iterable[Action]) -> bytes:
    """The actions that answered `event`: equal actions give equal bytes."""
    return b"".join(_action(event, action) for action in actions)


def _action(event: Event, action: Action) -> bytes:
    if isinstance(action, Send):
        if isinstance(event, FrameReceived) and _passes_on(event.frame, action.frame):
            return _FORWARD + _ports(action.interfaces)
        return _SEND + _ports(action.interfaces) + _sized(_frame_or_reason(action.frame))
    if isinstance(action, Deliver):
        came = action.message is _message_of(event)
        kind = _ActionKind.DELIVER if came else _ActionKind.DELIVER_OTHER
        head = _DELIVER.pack(kind, action.source, action.seq) + _applications(action.apps)
        return head if came else head + _sized(_json(action.message))
    if isinstance(action, SendToController):
        return _SEND_TO_CONTROLLER + _sized(_frame_or_reason(action.frame))
    if isinstance(action, Accepted):
        return struct.pack("<BIIQ", _ActionKind.ACCEPTED, action.app, action.source, action.seq)
    return struct.pack("<BI", _ActionKind.REFUSED, action.app) + _sized(action.reason.encode())


def _passes_on(came: Frame, goes: Frame) -> bool:
    return (
        goes.body is came.body
        and goes.hop_limit == came.hop_limit - 1
        and goes.seq == came.seq
        and goes.issuer == came.issuer
        and goes.epoch == came.epoch
        and goes.type is came.type
        and goes.flags == came.flags
    )


def _message_of(event: Event) -> Body | None:
    if isinstance(event, FrameReceived):
        body = event.frame.body
        return body.decoded if isinstance(body, EncodedMessage) else body
    return event.message if isinstance(event, SendMessage) else None


def _frame_or_reason(frame: Frame) -> bytes:
    """The frame, or why no router can send it; a router drops and counts such a frame."""
    try:
        return whole_frame(frame)
    except ValueError as error:
        return str(error).encode()


# For people.


def describe_event(event: Event) -> str:
    """An event on one line."""
    if isinstance(event, FrameReceived):
        return f"from node {event.sender}: {describe_frame(event.frame)}"
    if isinstance(event, ControllerFrame):
        return f"from the controller: {describe_frame(event.frame)}"
    if isinstance(event, SetPredicate):
        return f"application {event.app}: set_predicate {format_predicate(event.predicate)}"
    if isinstance(event, SendMessage):
        return f"application {event.app}: send_message {format_message(event.message)}"
    if isinstance(event, ApplicationGone):
        return f"application {event.app} left"
    if isinstance(event, RequestUpdate):
        through = "every interface" if event.interfaces is None else f"interfaces {_listed(event.interfaces)}"
        return f"request update through {through}"
    if isinstance(event, HandlingTime):
        return f"that took {event.seconds * 1e6:.0f} us"
    return type(event).__name__.lower()


def describe_frame(frame: Frame) -> str:
    """A frame on one line: type, issuer/number, epoch, hops left, content."""
    body = frame.body
    if isinstance(body, Message | EncodedMessage):
        content = _describe_message(body)
    elif frame.type in (FrameType.RA, FrameType.UR):
        content = format_predicate(body)  # type: ignore[arg-type]
    elif isinstance(body, SenderRequest):
        content = f"timeout {body.timeout_us} us"
    elif isinstance(body, Hello):
        content = f"incarnation {body.incarnation}"
    else:
        content = str(body)
    flags = f" {frame.flags.name}" if frame.flags else ""
    return (
        f"{frame.type.name} {frame.issuer}/{frame.seq}{flags}, epoch {frame.epoch}, "
        f"hop limit {frame.hop_limit}: {content}"
    )


def _describe_message(body: Message | EncodedMessage) -> str:
    try:
        return format_message(message_of(body))
    except DecodeError as error:
        return f"not decodable: {error}"


def describe_actions(event: Event, data: bytes) -> list[str]:
    """What `encode_actions` wrote, a line for each action.

    Raises:
        ValueError: the bytes are not of that form.
    """
    try:
        return list(_described(event, data))
    except (struct.error, IndexError, TypeError) as error:
        raise ValueError(f"actions: {error}") from error


def _described(event: Event, data: bytes) -> Iterator[str]:
    at = 0
    while at < len(data):
        kind = _ActionKind(data[at])
        at += 1
        if kind in (_ActionKind.FORWARD, _ActionKind.SEND):
            (count,) = struct.unpack_from("<H", data, at)
            ports = struct.unpack_from(f"<{count}H", data, at + 2)
            at += 2 + 2 * count
            if kind is _ActionKind.FORWARD:
                yield f"pass on through interfaces {_listed(ports)}"
                continue
            frame, at = _take(data, at)
            yield f"send through interfaces {_listed(ports)}: {_frame_or_text(frame)}"
        elif kind is _ActionKind.SEND_TO_CONTROLLER:
            frame, at = _take(data, at)
            yield f"send to the controller: {_frame_or_text(frame)}"
        elif kind in (_ActionKind.DELIVER, _ActionKind.DELIVER_OTHER):
            source, seq, count = struct.unpack_from("<IQH", data, at)
            apps = struct.unpack_from(f"<{count}I", data, at + 14)
            at += 14 + 4 * count
            if kind is _ActionKind.DELIVER_OTHER:
                text, at = _take(data, at)
                message = Message(json.loads(text))
            elif isinstance(event, SendMessage):
                message = event.message
            elif isinstance(event, FrameReceived) and isinstance(event.frame.body, Message | EncodedMessage):
                message = message_of(event.frame.body)
            else:
                raise ValueError("a delivery, where the event brought no message")
            yield f"deliver {source}/{seq} to applications {_listed(apps)}: {format_message(message)}"
        elif kind is _ActionKind.ACCEPTED:
            app, source, seq = struct.unpack_from("<IIQ", data, at)
            at += 16
            yield f"accepted from application {app} as {source}/{seq}"
        else:
            (app,) = _U32.unpack_from(data, at)
            reason, at = _take(data, at + 4)
            yield f"refused to application {app}: {reason.decode()}"


def _frame_or_text(data: bytes) -> str:
    try:
        return describe_frame(read_whole_frame(data))
    except ValueError:
        return data.decode(errors="replace")


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


# Pieces.


# A router sends through few sets of interfaces, and delivers to few sets of applications.
@lru_cache(maxsize=1024)
def _ports(interfaces: frozenset[int]) -> bytes:
    return struct.pack(f"<H{len(interfaces)}H", len(interfaces), *sorted(interfaces))


@lru_cache(maxsize=1024)
def _applications(numbers: tuple[int, ...]) -> bytes:
    return struct.pack(f"<H{len(numbers)}I", len(numbers), *numbers)


def _sized(data: bytes) -> bytes:
    return _U32.pack(len(data)) + data


def _take(data: bytes, at: int) -> tuple[bytes, int]:
    (length,) = _U32.unpack_from(data, at)
    end = at + 4 + length
    return data[at + 4 : end], end


def _number(data: bytes) -> int:
    return int(_U32.unpack_from(data)[0])


def _json(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
