"""Frames in recordings: whole, as on the wire, and as one line of text."""

from __future__ import annotations

from router.predicates.model import Message, Predicate
from router.predicates.printer import format_message, format_predicate
from router.wire.bodies import BODIES, decode_encoded
from router.wire.codec import HEADER_LENGTH, decode_header, forwarded_frame
from router.wire.format import SIGNATURE_BYTES, Flags
from router.wire.frames import (
    AddressedMessage,
    EncodedMessage,
    EncodedPredicate,
    Frame,
    Hello,
    SenderRequest,
)
from router.wire.header import DecodeError, Header
from router.wire.message import message_of

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
