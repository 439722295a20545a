"""Frames in recordings: whole, as on the wire, and as one line of text."""

from __future__ import annotations

from router.predicates.model import Message, Predicate
from router.predicates.printer import format_message, format_predicate
from router.wire.bodies import BODIES, decode_encoded
from router.wire.codec import HEADER_LENGTH, decode_header, forwarded_frame, fragment
from router.wire.frames import (
    AddressedMessage,
    EncodedMessage,
    EncodedPredicate,
    Frame,
    Hello,
    SenderRequest,
)
from router.wire.header import DecodeError
from router.wire.message import message_of

_U16_MAX = 65_535
_LARGEST_FRAGMENT = HEADER_LENGTH + _U16_MAX


def whole_frame(frame: Frame) -> bytes:
    """Encodes header and whole body of a frame, whatever its length.

    Raises:
        ValueError: the frame cannot be sent (`router.wire.codec.fragment`).
    """
    payloads = fragment(frame, _LARGEST_FRAGMENT)
    if len(payloads) == 1:
        return payloads[0]
    return payloads[-1][:HEADER_LENGTH] + b"".join(payload[HEADER_LENGTH:] for payload in payloads)


def read_whole_frame(data: bytes) -> Frame:
    """Decodes the output of `whole_frame` or a reassembled frame.

    Raises ValueError if it is malformed.
    """
    return forwarded_frame(decode_header(data), data[HEADER_LENGTH:])


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
    flags = f" {frame.flags.name}" if frame.flags else ""
    return (
        f"{frame.type.name} {frame.issuer}/{frame.seq}{flags}, epoch {frame.epoch}, "
        f"hop limit {frame.hop_limit}: {content}"
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
