"""The header of every CBCB frame, the layouts of the format's tables, and the error of a broken rule.

Layout: `router.wire.format.HEADER`, in network byte order; every fragment repeats the header. Nothing in this
module reads a body, so a reader of captures can use the module alone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from router.wire.format import HEADER as FIELDS
from router.wire.format import (
    MAX_BODY_LENGTH,
    NAMES,
    SIGNATURE_BYTES,
    VERSION,
    DecodeReason,
    Field,
    Flags,
    FrameFormat,
    FrameType,
    Layout,
    Names,
    Record,
    Tlv,
    TlvFormat,
)
from router.wire.format_frames import FRAMES
from router.wire.format_tlvs import TLVS

#: Numbers: the character of `struct`, and the bytes.
STRUCT_CODES = {Layout.U8: "B", Layout.U16: "H", Layout.U32: "I", Layout.U64: "Q"}
SIZES = {Layout.U8: 1, Layout.U16: 2, Layout.U32: 4, Layout.U64: 8}
FRAME_FORMATS: dict[FrameType, FrameFormat] = {row.type: row for row in FRAMES}
TLV_FORMATS: dict[Tlv, TlvFormat] = {row.type: row for row in TLVS}


def struct_of(fields: Iterable[Field]) -> struct.Struct:
    """The struct of the numbers with which `fields` begin; it ends before the first other field."""
    return struct.Struct("!" + "".join(STRUCT_CODES[field.layout] for field in _leading_numbers(fields)))


def _leading_numbers(fields: Iterable[Field]) -> Iterator[Field]:
    for field in fields:
        if field.layout not in STRUCT_CODES:
            return
        yield field


def offsets_of(fields: Iterable[Field]) -> dict[str, int]:
    """Field name -> offset of the field, for fields that are all numbers."""
    offsets, at = {}, 0
    for field in fields:
        offsets[field.name] = at
        at += SIZES[field.layout]
    return offsets


def masks_of(record: Record) -> dict[str, int]:
    """Field name -> mask, for the fields of a record of which all are bits of one u16."""
    masks, free = {}, 16
    for field in record.fields:
        free -= field.bits
        masks[field.name] = ((1 << field.bits) - 1) << free
    return masks


HEADER_OFFSETS = offsets_of(FIELDS)
HEADER = struct_of(FIELDS)
HEADER_LENGTH = HEADER.size
#: Names of the frame types by number, for counters and displays.
TYPE_NAMES = NAMES[Names.FRAME_TYPES]
#: Type under which a frame is counted whose header breaks a rule.
UNDECODABLE = "undecodable"
_SIGNED = int(Flags.SIGNED)
_TYPES: dict[int, FrameType] = {int(type_): type_ for type_ in FrameType}
#: The numbers of the frame types, for messages.
EXPECTED_TYPES = ", ".join(map(str, _TYPES))


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
    type_ = _TYPES.get(number)
    if type_ is None:
        raise DecodeError(DecodeReason.BAD_TYPE, f"frame type {number}; expected {EXPECTED_TYPES}")
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
    return Header(type_, flags, hop_limit, issuer, seq, epoch, total, index, count, here)


def length_with_signature(header: Header) -> int:
    """The bytes of the header, the body in this frame, and the signature that the header may announce."""
    length = HEADER_LENGTH + header.payload_length
    return length + SIGNATURE_BYTES if header.flags & _SIGNED else length


def signature_of(header: Header, payload: bytes) -> bytes:
    """The signature behind the body in an Ethernet payload; empty: there is none, or it is cut short."""
    if not header.flags & _SIGNED:
        return b""
    signature = payload[HEADER_LENGTH + header.payload_length : length_with_signature(header)]
    return signature if len(signature) == SIGNATURE_BYTES else b""


def _check_fragment(index: int, count: int, here: int, total: int) -> None:
    """The rules for one fragment of several: each carries at least one byte and leaves one to each other."""
    if index >= count:
        raise DecodeError(DecodeReason.BAD_FRAGMENT, f"fragment {index} of {count}; indices start at 0")
    if not 1 <= here <= total - (count - 1):
        raise DecodeError(
            DecodeReason.BAD_LENGTH,
            f"payload_length {here} in fragment {index} of {count}, {total} bytes in all",
        )
