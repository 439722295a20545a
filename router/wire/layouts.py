"""Sizes, offsets and struct formats that follow from the tables in `router.wire.format`."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from router.wire.format import (
    FRAMES,
    HEADER,
    TLVS,
    Field,
    FrameFormat,
    FrameType,
    Layout,
    Record,
    Tlv,
    TlvFormat,
)

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


HEADER_OFFSETS = offsets_of(HEADER)
