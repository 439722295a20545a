"""Recordings of a router: layouts of records, predicates and messages as JSON, frames.

Compiled code writes the layouts too.
"""

from __future__ import annotations

import json
import struct

from router.predicates import Message, Predicate
from router.predicates.encoded import BloomMessage, BloomPredicate
from router.predicates.printer import format_message, format_predicate, predicate_from_json, predicate_to_json
from router.records.json_file import to_json
from router.wire import private
from router.wire.bodies import BODIES, decode_encoded
from router.wire.codec import forwarded_frame
from router.wire.format import SIGNATURE_BYTES, Flags, FrameType
from router.wire.frames import AddressedMessage, EncodedMessage, EncodedPredicate, Frame, Hello, SenderRequest
from router.wire.header import HEADER_LENGTH, DecodeError, Header, decode_header
from router.wire.message import message_of

#: The head of a record: type, length of what follows. That of an event goes on with the time, seconds.
RECORD = struct.Struct("<BI")
EVENT = struct.Struct("<BId")
#: The bytes of an event that its length counts beyond its content.
TIME_BYTES = EVENT.size - RECORD.size
#: Offsets in a record: the length, and the time of an event.
LENGTH_AT, TIME_AT = 1, RECORD.size

#: Types of records: a frame of another router came in; the answer to the event before.
FRAME_RECEIVED, ACTIONS = 3, 65
#: Type of an action: send the received frame with the hop limit reduced by one.
FORWARD = 1

#: The number of interfaces or applications, which follow; an interface.
COUNT, INTERFACE = struct.Struct("<H"), struct.Struct("<H")


def predicate_json(predicate: Predicate) -> bytes:
    """A list of filters; of an encoded predicate, the bytes of its TLVs as a hexadecimal text."""
    if isinstance(predicate, BloomPredicate):
        return to_json(private.encode_predicate(predicate).hex())
    return to_json(predicate_to_json(predicate))


def read_predicate(data: bytes) -> Predicate:
    """The predicate of the JSON of `predicate_json`.

    Raises:
        ValueError: it has another form.
    """
    content = json.loads(data)
    if isinstance(content, str):
        return private.decode_predicate(FrameType.XRA, bytes.fromhex(content))
    return predicate_from_json(content)


def message_json(message: Message) -> bytes:
    """An object of the attributes; of a private message, the bytes of its TLVs as a hexadecimal text."""
    if isinstance(message, BloomMessage):
        return to_json(private.encode_message(message).hex())
    return to_json(message)


def read_message(data: bytes) -> Message:
    """The message of the output of `message_json`.

    Raises:
        ValueError, TypeError: it has another form.
    """
    content = json.loads(data)
    return private.decode_message(bytes.fromhex(content)) if isinstance(content, str) else Message(content)


_SIGNED = int(Flags.SIGNED)


def read_whole_frame(data: bytes) -> Frame:
    """Decodes a whole frame: header, body and signature, one behind the other.

    Raises ValueError if it is malformed.
    """
    header = decode_header(data)
    body = data[HEADER_LENGTH:]
    if not header.flags & _SIGNED or len(body) < header.total_length + SIGNATURE_BYTES:
        return forwarded_frame(header, body)
    return forwarded_frame(header, body[:-SIGNATURE_BYTES], body[-SIGNATURE_BYTES:])


def describe_frame(frame: Frame) -> str:
    """Describes a frame on one line: type, issuer/number, epoch, hop limit, content."""
    body = frame.body
    if isinstance(body, AddressedMessage):
        content = f"to {', '.join(map(str, body.destinations))}: {_describe_message(body.message)}"
    elif isinstance(body, Message | EncodedMessage):
        content = _describe_message(body)
    elif isinstance(body, Predicate | EncodedPredicate):
        content = _describe_predicate(body)
    elif isinstance(body, SenderRequest):
        content = f"timeout {body.timeout_us} us"
    elif isinstance(body, Hello):
        content = f"incarnation {body.incarnation}"
    else:
        content = str(body)
    return f"{describe_header(frame, bool(frame.signature))}: {content}"


def describe_header(header: Header | Frame, signed: bool) -> str:
    """Describes the header of a frame: type, issuer/number, flags, epoch, hop limit."""
    flags = Flags(header.flags & ~_SIGNED)
    named = f" {flags.name}" if flags else ""
    named += " signed" if signed else ""
    return (
        f"{header.type.name} {header.issuer}/{header.seq}{named}, epoch {header.epoch}, "
        f"hop limit {header.hop_limit}"
    )


def _describe_predicate(body: Predicate | EncodedPredicate) -> str:
    if isinstance(body, EncodedPredicate):
        if BODIES[body.frame_type].filters is None:
            return f"refused: {len(body.encoded)} bytes"
        try:
            body = decode_encoded(body)
        except DecodeError as error:
            return f"not decodable: {error}"
    return format_predicate(body)


def _describe_message(body: Message | EncodedMessage) -> str:
    try:
        return format_message(message_of(body))
    except DecodeError as error:
        return f"not decodable: {error}"
