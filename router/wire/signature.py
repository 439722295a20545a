"""Signatures of frames: where they are, and what they cover.

A signature is behind the body of every Ethernet frame of a signed frame, before its trailer. It covers what
does not change on the way: no hop limit, no timeout of an SR, no destinations of a message.
"""

from __future__ import annotations

import struct

from router.wire.bodies import BODIES
from router.wire.codec import encode_body
from router.wire.format import MESSAGES, Flags, FrameType
from router.wire.frames import AddressedMessage, Frame

#: Type, flags, issuer, seq, epoch.
_HEAD = struct.Struct("!BBIQI")
_LABEL = b"cbcb frame 1"
_FLAGS = Flags.PARTIAL | Flags.IDENTIFIED


def covered(frame: Frame) -> bytes:
    """The bytes that the signature of a frame is made of.

    Raises:
        ValueError: the frame is outside the format.
    """
    try:
        head = _HEAD.pack(frame.type, frame.flags & _FLAGS, frame.issuer, frame.seq, frame.epoch)
    except struct.error as error:
        raise ValueError(f"{frame.type.name}: a field does not fit: {error}") from error
    return _LABEL + head + _content(frame)


def _content(frame: Frame) -> bytes:
    if frame.type is FrameType.SR:
        return b""
    if frame.type in MESSAGES and isinstance(frame.body, AddressedMessage):
        return BODIES[frame.type].encode(frame.body.message)
    return encode_body(frame)
