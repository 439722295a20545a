"""The fixed header of every CBCB frame, and what can be wrong with a frame.

Layout (docs/wire-format.md): 32 bytes in network byte order, repeated in every fragment. Nothing here
looks into the body, so a reader of captures can use it alone.
"""

from __future__ import annotations

import struct
from enum import StrEnum
from typing import NamedTuple

from router.wire.frames import VERSION, FrameType

#: version, type, flags, hop_limit, issuer, seq, epoch, total_length, fragment_index, fragment_count,
#: payload_length, reserved.
HEADER = struct.Struct("!BBBBIQIIHHHH")
HEADER_LENGTH = 32
assert HEADER.size == HEADER_LENGTH
#: Limit of the format on `total_length`, so that a receiver's memory has a bound: 16 MiB.
MAX_BODY_LENGTH = 16 * 1024 * 1024
#: Names of the frame types by number, for counters and displays.
TYPE_NAMES: dict[int, str] = {int(kind): kind.name for kind in FrameType}
_TYPES: dict[int, FrameType] = {int(kind): kind for kind in FrameType}


class DecodeReason(StrEnum):
    """Why a frame was not decoded; the values are the names of counters."""

    TRUNCATED = "truncated"
    BAD_VERSION = "bad_version"
    BAD_TYPE = "bad_type"
    BAD_RESERVED = "bad_reserved"
    BAD_LENGTH = "bad_length"
    BAD_FRAGMENT = "bad_fragment"
    TOO_LARGE = "too_large"
    BAD_TLV = "bad_tlv"
    BAD_NAME = "bad_name"
    BAD_VALUE = "bad_value"
    BAD_CONSTRAINT = "bad_constraint"
    DUPLICATE_ATTRIBUTE = "duplicate_attribute"
    DUPLICATE_ENTRY = "duplicate_entry"


class DecodeError(ValueError):
    """Bytes that are not a CBCB frame of this version.

    Attributes:
        reason: the rule that was broken.
    """

    def __init__(self, reason: DecodeReason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason = reason


class Header(NamedTuple):
    """The header fields of one frame, without the version and the reserved field, which are constant.

    `total_length` counts the bytes of the whole body, `payload_length` those in this frame.
    """

    type: FrameType
    flags: int
    hop_limit: int
    issuer: int
    seq: int
    epoch: int
    total_length: int
    fragment_index: int
    fragment_count: int
    payload_length: int


def decode_header(payload: bytes) -> Header:
    """Read and check the header of an Ethernet payload.

    Bytes after the header's `payload_length` are Ethernet padding and are ignored.

    Raises:
        DecodeError: the header breaks a rule, or the payload is shorter than it says.
    """
    length = len(payload)
    if length < HEADER_LENGTH:
        raise DecodeError(DecodeReason.TRUNCATED, f"{length} bytes; a header has {HEADER_LENGTH}")
    (version, number, flags, hop_limit, issuer, seq, epoch, total, index, count, here, reserved) = (
        HEADER.unpack_from(payload)
    )
    if version != VERSION:
        raise DecodeError(DecodeReason.BAD_VERSION, f"version {version}; expected {VERSION}")
    kind = _TYPES.get(number)
    if kind is None:
        raise DecodeError(DecodeReason.BAD_TYPE, f"frame type {number}; expected 1 to {len(_TYPES)}")
    if reserved:
        raise DecodeError(DecodeReason.BAD_RESERVED, f"reserved field is {reserved}; expected 0")
    if total > MAX_BODY_LENGTH:
        raise DecodeError(DecodeReason.TOO_LARGE, f"body of {total} bytes; at most {MAX_BODY_LENGTH}")
    if count == 1:
        if index:
            raise DecodeError(DecodeReason.BAD_FRAGMENT, f"fragment {index} of 1; indices start at 0")
        if here != total:
            raise DecodeError(
                DecodeReason.BAD_LENGTH, f"payload_length {here} of an unfragmented body of {total} bytes"
            )
    else:
        _check_fragment(index, count, here, total)
    if length - HEADER_LENGTH < here:
        raise DecodeError(
            DecodeReason.TRUNCATED, f"payload_length {here}, but {length - HEADER_LENGTH} bytes follow"
        )
    return Header(kind, flags, hop_limit, issuer, seq, epoch, total, index, count, here)


def _check_fragment(index: int, count: int, here: int, total: int) -> None:
    """The rules for one fragment of several: each carries at least one byte and leaves one to each other."""
    if index >= count:
        raise DecodeError(DecodeReason.BAD_FRAGMENT, f"fragment {index} of {count}; indices start at 0")
    if not 1 <= here <= total - (count - 1):
        raise DecodeError(
            DecodeReason.BAD_LENGTH,
            f"payload_length {here} in fragment {index} of {count}, {total} bytes in all",
        )
