"""The tables of the format: complete, without contradictions, and as the codec has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.predicates import Operator, Type
from router.wire import format
from router.wire.bodies import BODIES
from router.wire.format import HEADER, DecodeReason, Flags, FrameType, Occurs, Part, Tlv
from router.wire.format_frames import FRAMES, REASONS
from router.wire.format_tlvs import OPERATORS, TLVS, VALUES
from router.wire.generate import BLOCKS, generated
from router.wire.header import (
    HEADER_LENGTH,
    HEADER_OFFSETS,
    SIZES,
    DecodeError,
    Header,
    decode_header,
)
from tests.support.packets import payload_of, tlvs_in
from tests.support.whole_frames import decode
from tests.vectors.wire_vectors import MALFORMED, WHOLE


def test_every_number_has_one_row() -> None:
    assert [row.type for row in FRAMES] == list(FrameType) == list(BODIES)
    assert [row.type for row in TLVS] == list(Tlv)
    assert {row.reason for row in REASONS} == set(DecodeReason)
    assert len(REASONS) == len(DecodeReason)
    assert list(VALUES) == list(Type)
    assert list(OPERATORS) == list(Operator)
    assert list(format.FLAGS) == list(Flags)


def test_the_header_is_that_of_the_codec() -> None:
    names = [field.name for field in HEADER]
    assert [name for name in names if name not in ("version", "reserved")] == list(Header._fields)
    last = HEADER[-1]
    assert HEADER_OFFSETS[last.name] + SIZES[last.layout] == HEADER_LENGTH == 32


def _reason(payload: bytes) -> str | None:
    try:
        decode(payload)
    except DecodeError as error:
        return error.reason.value
    return None


def _tlvs(payload: bytes) -> list[bytes]:
    return tlvs_in(payload[32 : 32 + int.from_bytes(payload[28:30], "big")])


#: The shortest TLV of each type in the golden vectors.
_EXAMPLES = {
    part[0]: part
    for part in sorted((part for vector in WHOLE for part in _tlvs(vector.payload)), key=len, reverse=True)
}


@pytest.mark.parametrize("row", FRAMES, ids=lambda row: row.type.name)
def test_the_codec_takes_the_tlvs_of_the_table(row: format.FrameFormat) -> None:
    for tlv in Tlv:
        occurs = dict(row.tlvs).get(tlv)
        before, after = b"", b""
        for other, each in row.tlvs:
            if each is Occurs.ONCE and other is not tlv:
                if tlv is Tlv.KEY:
                    after += _EXAMPLES[other]
                else:
                    before += _EXAMPLES[other]
        if tlv is Tlv.SUBTREES and occurs:
            # It has a row for each of three classes.
            before += _EXAMPLES[Tlv.TREE_CLASS] * 3
        if tlv is Tlv.BLOOM and occurs is Occurs.ANY_NUMBER:
            before += _EXAMPLES[Tlv.KEY]
        destinations = tlv in (Tlv.DESTINATIONS, Tlv.DESTINATION_MAP)
        if destinations:
            before, after = b"", before
        elif row.type is FrameType.PUB:
            before = _EXAMPLES[Tlv.DESTINATIONS] + before
        once, twice = before + _EXAMPLES[tlv] + after, before + _EXAMPLES[tlv] * 2 + after
        assert _reason(payload_of(row.type, once)) == (None if occurs else "bad_tlv")
        if occurs in (Occurs.ONCE, Occurs.OPTIONAL):
            assert _reason(payload_of(row.type, twice)) == "bad_tlv"
        elif occurs is Occurs.ANY_NUMBER:
            # A second attribute, neighbour or entry is refused for its content, not for its place.
            assert _reason(payload_of(row.type, twice)) in (None, "duplicate_attribute", "duplicate_entry")
    required = any(occurs is Occurs.ONCE for _, occurs in row.tlvs)
    # A PUB must have one of two TLVs.
    assert _reason(payload_of(row.type, b"")) == ("bad_tlv" if required else None)
    assert _reason(payload_of(row.type, b"\xff\0\0\0\0")) == ("bad_tlv" if required else None)
    # Of a TLV the first byte alone.
    assert _reason(payload_of(row.type, b"\xff")) == "bad_tlv"


def test_reasons_of_the_header_are_found_in_the_header() -> None:
    """`decode_header` refuses a frame exactly when the reason is one of the header."""
    in_header = {row.reason.value for row in REASONS if row.part is Part.HEADER}
    for vector in MALFORMED:
        try:
            decode_header(vector.payload)
        except DecodeError as error:
            assert error.reason.value == vector.reason
            assert vector.reason in in_header
        else:
            assert vector.reason not in in_header


@pytest.mark.parametrize("path", BLOCKS, ids=lambda path: path.name)
def test_generated_blocks_are_up_to_date(path: Path) -> None:
    """If not: `python -m router.wire.generate`."""
    assert path.read_text(encoding="utf-8") == generated(path)
