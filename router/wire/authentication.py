"""Authentication on the wire: what a signature covers, the trailer of a tagged frame, windows of repetition.

A signature is behind the body of every Ethernet frame of a signed frame, before its trailer. It covers what
does not change on the way: no hop limit, no timeout of an SR, no destinations of a message. A trailer
(`router.wire.format.TRAILER`, then `tag_count` tags) has the tags of one hop, behind body and signature and
before padding; a reader without keys takes it for padding. A window, as in RFC 6479, is the greatest number
of a sender that was accepted, and which of the numbers up to it were, as bits: bit i is the number
greatest - i.
"""

from __future__ import annotations

import struct
from typing import Literal

from router.wire.bodies import BODIES
from router.wire.codec import encode_body
from router.wire.format import MESSAGES, TAG_BYTES, TRAILER as FIELDS, Flags, FrameType
from router.wire.frames import AddressedMessage, Frame
from router.wire.header import HEADER_OFFSETS, struct_of

#: `[security] mode` of an experiment.
SecurityMode = Literal["off", "mac", "signed"]
#: Numbers of a hop that are remembered: so far may the frames of a neighbour overtake each other.
WINDOW = 1024
#: Type, flags, issuer, seq, epoch.
_HEAD = struct.Struct("!BBIQI")
_LABEL = b"cbcb frame 1"
_SIGNED_FLAGS = Flags.PARTIAL | Flags.IDENTIFIED
#: The trailer before its tags.
HEAD = struct_of(FIELDS)
_FLAGS = HEADER_OFFSETS["flags"]
_TAGGED = int(Flags.TAGGED)


def trailer_length(tags: int) -> int:
    """The bytes of a trailer with so many tags."""
    return HEAD.size + TAG_BYTES * tags


def marked(payload: bytes) -> bytes:
    """The payload, which says that a trailer follows."""
    return payload[:_FLAGS] + bytes((payload[_FLAGS] | _TAGGED,)) + payload[_FLAGS + 1 :]


def unmarked(payload: bytes) -> bytes:
    """The payload, which says that no trailer follows."""
    return payload[:_FLAGS] + bytes((payload[_FLAGS] & ~_TAGGED,)) + payload[_FLAGS + 1 :]


def covered(frame: Frame) -> bytes:
    """The bytes that the signature of a frame is made of.

    Raises:
        ValueError: the frame is outside the format.
    """
    try:
        head = _HEAD.pack(frame.type, frame.flags & _SIGNED_FLAGS, frame.issuer, frame.seq, frame.epoch)
    except struct.error as error:
        raise ValueError(f"{frame.type.name}: a field does not fit: {error}") from error
    return _LABEL + head + _content(frame)


def _content(frame: Frame) -> bytes:
    if frame.type is FrameType.SR:
        return b""
    if frame.type in MESSAGES and isinstance(frame.body, AddressedMessage):
        return BODIES[frame.type].encode(frame.body.message)
    return encode_body(frame)


def advanced(greatest: int, bits: int, number: int, size: int = WINDOW) -> tuple[int, int] | None:
    """The greatest number and the bits of a window that takes a number; None: it came, or is too old.

    Args:
        size: numbers that are remembered.
    """
    ahead = number - greatest
    if ahead > 0:
        return number, (bits << ahead & (1 << size) - 1 if ahead < size else 0) | 1
    if -ahead >= size or bits >> -ahead & 1:
        return None
    return greatest, bits | 1 << -ahead
