"""Frames that are one Ethernet payload each, whatever the MTU."""

from __future__ import annotations

from router.wire.codec import fragment, read_frame
from router.wire.format import MAX_BODY_LENGTH, DecodeReason
from router.wire.frames import Frame
from router.wire.header import HEADER_LENGTH, DecodeError, decode_header, signature_of


def encode(frame: Frame) -> bytes:
    """A frame as one payload.

    Raises:
        ValueError: as `fragment`; the frame is larger than a payload can be.
    """
    (payload,) = fragment(frame, MAX_BODY_LENGTH)
    return payload


def decode(payload: bytes) -> Frame:
    """The frame in a payload.

    Raises:
        DecodeError: it breaks a rule of the format, or is a fragment.
    """
    header = decode_header(payload)
    if header.fragment_count != 1:
        raise DecodeError(DecodeReason.BAD_FRAGMENT, f"fragment {header.fragment_index} of a frame")
    body = payload[HEADER_LENGTH : HEADER_LENGTH + header.payload_length]
    return read_frame(header, body, signature_of(header, payload))
