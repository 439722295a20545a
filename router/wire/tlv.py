"""Bodies as sequences of TLVs (type, length, value): the rules that hold for every frame type.

A TLV of an unknown type is skipped; a known one in a frame that has no place for it makes the frame
undecodable (docs/wire-format.md).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from router.wire.format import DecodeReason, FrameType, Tlv
from router.wire.header import DecodeError

TLV_HEADER = struct.Struct("!BI")
TLV_HEADER_LENGTH = TLV_HEADER.size
#: TLV types that no frame skips: those of this version, and 0.
NEVER_SKIPPED = (0, *(int(tlv) for tlv in Tlv))
#: Takes a TLV: its type, and start and end of its value. Raises DecodeError.
OtherTlv = Callable[[int, int, int], None]


def encode_tlv(tlv: Tlv, value: bytes) -> bytes:
    """One TLV."""
    return TLV_HEADER.pack(tlv, len(value)) + value


def tlvs(body: bytes) -> Iterator[tuple[int, int, int]]:
    """The TLVs of a body: type, and start and end of the value.

    Raises:
        DecodeError: a TLV runs past the end of the body.
    """
    offset = 0
    end = len(body)
    while offset < end:
        start = offset + TLV_HEADER_LENGTH
        if start > end:
            raise overrun(offset, end)
        number, length = TLV_HEADER.unpack_from(body, offset)
        if start + length > end:
            raise overrun(offset, end)
        offset = start + length
        yield number, start, offset


def skip_unknown(number: int, frame_type: FrameType) -> None:
    """Checks that a TLV type for which a frame has no place may be skipped.

    Raises:
        DecodeError: the type is 0 or known.
    """
    if number == 0:
        raise DecodeError(DecodeReason.BAD_TLV, "TLV of type 0")
    if number in NEVER_SKIPPED:
        raise DecodeError(DecodeReason.BAD_TLV, f"{Tlv(number).name} has no place in {frame_type.name}")


def overrun(offset: int, end: int) -> DecodeError:
    """The error of a TLV that begins at `offset` and does not end within the body."""
    return DecodeError(DecodeReason.BAD_TLV, f"TLV at byte {offset} runs past the body's end at {end}")


def wrong_size(tlv: Tlv, size: int, expected: int) -> DecodeError:
    """The error of a TLV whose value has `size` bytes."""
    return DecodeError(DecodeReason.BAD_TLV, f"{tlv.name} of {size} bytes; expected {expected}")
