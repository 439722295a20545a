"""Actions of the protocol core as bytes and as text.

A frame is written whole, as on the wire: the header of the Ethernet frame that completed it, and its body. A
forwarded frame equals the received frame except for the hop limit, and a delivered message mostly equals
the received message: neither is written a second time.

An action of a service (`router.protocol.events.ServiceAction`) is written as its application and its record.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import lru_cache

from router.predicates import Message
from router.predicates.printer import format_message
from router.protocol import events
from router.protocol.services.attention import (
    DeliverPublication,
    IndexChanged,
    Registered,
    RoundEnded,
    Unregistered,
    Uploaded,
)
from router.recording import (
    COUNT,
    FORWARD,
    INTERFACE,
    describe_frame,
    message_json,
    read_message,
    read_whole_frame,
)
from router.recording.events import listed
from router.records.json_file import to_json
from router.wire.codec import whole_frame
from router.wire.frames import AddressedMessage, Body, EncodedMessage, Frame
from router.wire.message import message_of


class _ActionType(IntEnum):
    #: Send the received frame with the hop limit reduced by one.
    FORWARD = FORWARD
    SEND = 2
    SEND_TO_CONTROLLER = 3
    #: Deliver the message of the event.
    DELIVER = 4
    DELIVER_OTHER = 5
    ACCEPTED = 6
    REFUSED = 7


_FORWARD, _SEND, _SEND_TO_CONTROLLER = (
    bytes((action_type,))
    for action_type in (_ActionType.FORWARD, _ActionType.SEND, _ActionType.SEND_TO_CONTROLLER)
)
#: The beginning of a delivery: type, source and sequence number of a message; applications follow.
_DELIVERED = struct.Struct("<BIQ")
#: An acceptance: type, application, source and sequence number of its message.
_ACCEPTANCE = struct.Struct("<BIIQ")
#: An application; the length of bytes that follow.
_APPLICATION, _LENGTH = struct.Struct("<I"), struct.Struct("<I")
#: Actions of services, and their codes.
SERVICE_ACTIONS: dict[type[events.ServiceAction], int] = {
    Registered: 32,
    Unregistered: 33,
    Uploaded: 34,
    DeliverPublication: 35,
    RoundEnded: 36,
    IndexChanged: 37,
}


def encode_actions(event: events.Event, actions: Iterable[events.Action]) -> bytes:
    """Encodes the actions that answered `event`: equal actions give equal bytes."""
    pieces: list[bytes] = []
    for action in actions:
        if isinstance(action, events.Send):
            ports = _ports(action.interfaces)
            if isinstance(event, events.FrameReceived) and _passes_on(event.frame, action.frame):
                pieces += (_FORWARD, ports)
            else:
                pieces += (_SEND, ports, *_sized_frame(action.frame))
        elif isinstance(action, events.SendToController):
            pieces += (_SEND_TO_CONTROLLER, *_sized_frame(action.frame))
        else:
            pieces.append(_action(event, action))
    return b"".join(pieces)


def _action(event: events.Event, action: events.Action) -> bytes:
    if isinstance(action, events.Deliver):
        if action.message is _message_of(event):
            return encode_delivery(action)
        return encode_delivery(action, _ActionType.DELIVER_OTHER) + _sized(message_json(action.message))
    if isinstance(action, events.Accepted):
        return _ACCEPTANCE.pack(_ActionType.ACCEPTED, action.app, action.source, action.seq)
    if isinstance(action, events.ServiceAction):
        code = SERVICE_ACTIONS[type(action)]
        return bytes((code,)) + _sized(to_json([action.application, action.record()]))
    assert isinstance(action, events.Refused)
    return struct.pack("<BI", _ActionType.REFUSED, action.app) + _sized(action.reason.encode())


def encode_delivery(action: events.Deliver, action_type: int = _ActionType.DELIVER) -> bytes:
    """Encodes a delivery of the message of the event, without the message."""
    return _DELIVERED.pack(action_type, action.source, action.seq) + _applications(action.apps)


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


def _message_of(event: events.Event) -> Body | None:
    if isinstance(event, events.FrameReceived):
        body = event.frame.body
        if isinstance(body, AddressedMessage):
            body = body.message
        return body.decoded if isinstance(body, EncodedMessage) else body
    return event.message if isinstance(event, events.SendMessage) else None


def _sized_frame(frame: Frame) -> tuple[bytes, ...]:
    """Returns the frame with its length, or the reason why it cannot be sent; a router drops and counts such
    a frame."""
    try:
        whole = whole_frame(frame)
    except ValueError as error:
        return (_sized(str(error).encode()),)
    return _LENGTH.pack(sum(map(len, whole))), *whole


def describe_actions(event: events.Event, data: bytes) -> list[str]:
    """Describes the output of `encode_actions`, a line for each action.

    Raises:
        ValueError: the bytes are not the output of `encode_actions`.
    """
    try:
        return list(_described(event, data))
    except (struct.error, IndexError, TypeError) as error:
        raise ValueError(f"actions: {error}") from error


def _described(event: events.Event, data: bytes) -> Iterator[str]:
    at = 0
    while at < len(data):
        if data[at] in SERVICE_ACTIONS.values():
            content, at = _take(data, at + 1)
            app, record = json.loads(content)
            fields = " ".join(f"{name}={value}" for name, value in record.items() if name != "event")
            yield f"{record['event']}{'' if app is None else f' for application {app}'}: {fields}"
            continue
        action_type = _ActionType(data[at])
        at += 1
        if action_type in (_ActionType.FORWARD, _ActionType.SEND):
            ports, at = _list(INTERFACE, data, at)
            if action_type is _ActionType.FORWARD:
                yield f"pass on through interfaces {listed(ports)}"
            else:
                frame, at = _take(data, at)
                yield f"send through interfaces {listed(ports)}: {_frame_or_text(frame)}"
        elif action_type is _ActionType.SEND_TO_CONTROLLER:
            frame, at = _take(data, at)
            yield f"send to the controller: {_frame_or_text(frame)}"
        elif action_type in (_ActionType.DELIVER, _ActionType.DELIVER_OTHER):
            _, source, seq = _DELIVERED.unpack_from(data, at - 1)
            apps, at = _list(_APPLICATION, data, at - 1 + _DELIVERED.size)
            if action_type is _ActionType.DELIVER_OTHER:
                text, at = _take(data, at)
                message = read_message(text)
            elif isinstance(event, events.SendMessage):
                message = event.message
            elif isinstance(event, events.FrameReceived) and isinstance(event.frame.body, _MESSAGES):
                message = message_of(event.frame.body)
            else:
                raise ValueError("a delivery of a message that the event does not have")
            yield f"deliver {source}/{seq} to applications {listed(apps)}: {format_message(message)}"
        elif action_type is _ActionType.ACCEPTED:
            _, app, source, seq = _ACCEPTANCE.unpack_from(data, at - 1)
            at += _ACCEPTANCE.size - 1
            yield f"accepted from application {app} as {source}/{seq}"
        else:
            (app,) = _APPLICATION.unpack_from(data, at)
            reason, at = _take(data, at + _APPLICATION.size)
            yield f"refused to application {app}: {reason.decode()}"


def _frame_or_text(data: bytes) -> str:
    try:
        return describe_frame(read_whole_frame(data))
    except ValueError:
        return data.decode(errors="replace")


_MESSAGES = Message | EncodedMessage | AddressedMessage


# Elements.


# A router uses few sets of interfaces and few sets of applications.
@lru_cache(maxsize=1024)
def _ports(interfaces: frozenset[int]) -> bytes:
    return COUNT.pack(len(interfaces)) + b"".join(map(INTERFACE.pack, sorted(interfaces)))


@lru_cache(maxsize=1024)
def _applications(numbers: tuple[int, ...]) -> bytes:
    return COUNT.pack(len(numbers)) + b"".join(map(_APPLICATION.pack, numbers))


def _list(element: struct.Struct, data: bytes, at: int) -> tuple[list[int], int]:
    (count,) = COUNT.unpack_from(data, at)
    start = at + COUNT.size
    end = start + count * element.size
    return [number for (number,) in element.iter_unpack(data[start:end])], end


def _sized(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def _take(data: bytes, at: int) -> tuple[bytes, int]:
    (length,) = _LENGTH.unpack_from(data, at)
    start = at + _LENGTH.size
    return data[start : start + length], start + length
