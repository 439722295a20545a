"""What the matching code works on, as named arrays: a message, a segment, the answer."""

# ruff: noqa: ANN001, ANN202
from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from router.matching.compiled.attributes import ATTRIBUTE_WIDTH
from router.matching.compiled.compiler import inlined
from router.matching.compiled.layout import BLOCK, GROUP_WIDTH, SLOT_WIDTH, Part
from router.matching.compiled.memory import bytes_at, ints_at, longs_at, words_at


class Scratch(IntEnum):
    """Of the row that describes the working memory (int64): address or number."""

    ROWS = 0  # int64 [ROWS_SIZE, ATTRIBUTE_WIDTH]
    ROWS_SIZE = 1
    POLYNOMIALS = 2  # uint64 [POLYNOMIALS_SIZE]
    POLYNOMIALS_SIZE = 3
    ATTRIBUTE_OF = 4  # int32 [slots of the largest segment]: -1 between calls
    ATTRIBUTE_OF_SIZE = 5
    HITS = 6  # int32 [2 * HITS_SIZE]: ranges of postings to be verified
    HITS_SIZE = 7
    POWERS = 8  # uint64 [POWERS_SIZE]
    POWERS_SIZE = 9
    FOUND = 10  # int32 [FOUND_SIZE]: the answer
    FOUND_SIZE = 11
    SEEN = 12  # int64 [groups of the largest segment]: the call in which a substring was last found
    SEEN_SIZE = 13
    CALLS = 14  # how many segments were searched up to now
    SIZE = 15


class MessageView(NamedTuple):
    """A message: its body, and what `attributes.read_attributes` made of it."""

    data: Any
    rows: Any
    count: Any
    polynomials: Any
    powers: Any
    #: By slot of the segment at hand: the attribute, or -1.
    attribute_of: Any
    #: By group of the segment at hand: equal to `call` if its substring was found before.
    seen: Any
    call: Any


class SegmentView(NamedTuple):
    """A segment's arrays; see `layout.Part`."""

    slot_table: Any
    slot_hash: Any
    slot_rows: Any
    names: Any
    string_table: Any
    string_hash: Any
    string_start: Any
    text: Any
    group_table: Any
    group_hash: Any
    group_rows: Any
    group_value: Any
    bloom: Any
    first_bytes: Any
    lengths: Any
    interface: Any
    needs: Any
    record_start: Any
    lower: Any
    upper: Any
    block_upper: Any
    blocks_upper: Any
    tests: Any
    a: Any
    b: Any


class AnswerView(NamedTuple):
    """The interfaces asked for that have not matched yet, those that have, and how many there can be."""

    open: Any
    found: Any
    wanted: Any


_PARTS, _SCRATCH = int(Part.SIZE), int(Scratch.SIZE)
_ROWS, _ROWS_SIZE, _POLYNOMIALS, _POLYNOMIALS_SIZE = (int(s) for s in list(Scratch)[:4])
_ATTRIBUTE_OF, _ATTRIBUTE_OF_SIZE = int(Scratch.ATTRIBUTE_OF), int(Scratch.ATTRIBUTE_OF_SIZE)
_POWERS, _POWERS_SIZE = int(Scratch.POWERS), int(Scratch.POWERS_SIZE)
_SEEN, _SEEN_SIZE, _CALLS = int(Scratch.SEEN), int(Scratch.SEEN_SIZE), int(Scratch.CALLS)
_SLOTS, _SLOT_TABLE, _SLOT_HASH, _SLOT_BITS, _SLOT_ROWS, _NAMES, _NAMES_SIZE = (int(p) for p in list(Part)[:7])
_STRING_TABLE, _STRING_HASH, _STRING_BITS, _STRING_START, _STRINGS, _TEXT, _TEXT_SIZE = (
    int(p) for p in list(Part)[7:14]
)
_GROUP_TABLE, _GROUP_HASH, _GROUP_BITS, _GROUP_ROWS, _GROUP_VALUE, _GROUPS = (int(p) for p in list(Part)[14:20])
_BLOOM, _BLOOM_WORDS, _FIRST_BYTES, _LENGTHS, _LENGTHS_SIZE = (int(p) for p in list(Part)[20:25])
_POSTINGS, _INTERFACE, _NEEDS, _RECORD_START, _LOWER, _UPPER, _BLOCK_UPPER, _BLOCKS_UPPER = (
    int(p) for p in list(Part)[25:33]
)
_TESTS, _A, _B, _RECORDS = (int(p) for p in list(Part)[33:37])


@inlined
def scratch_row(address):  # type: ignore[no-untyped-def]
    """The row that describes the working memory."""
    return longs_at(address, _SCRATCH)


@inlined
def attribute_rows(scratch):  # type: ignore[no-untyped-def]
    """int64 [rows, ATTRIBUTE_WIDTH] and uint64 [n]: where `read_attributes` writes."""
    rows = longs_at(scratch[_ROWS], scratch[_ROWS_SIZE] * ATTRIBUTE_WIDTH)
    polynomials = words_at(scratch[_POLYNOMIALS], scratch[_POLYNOMIALS_SIZE])
    return rows.reshape((scratch[_ROWS_SIZE], ATTRIBUTE_WIDTH)), polynomials


@inlined
def message_view(data, rows, count, polynomials, scratch):  # type: ignore[no-untyped-def]
    scratch[_CALLS] += 1
    return MessageView(
        data,
        rows,
        count,
        polynomials,
        words_at(scratch[_POWERS], scratch[_POWERS_SIZE]),
        ints_at(scratch[_ATTRIBUTE_OF], scratch[_ATTRIBUTE_OF_SIZE]),
        longs_at(scratch[_SEEN], scratch[_SEEN_SIZE]),
        scratch[_CALLS],
    )


@inlined
def segment_view(address):  # type: ignore[no-untyped-def]
    parts = longs_at(address, _PARTS)
    slots, postings, records = parts[_SLOTS], parts[_POSTINGS], parts[_RECORDS]
    blocks = (postings + BLOCK - 1) // BLOCK
    slot_places, string_places = np.int64(1) << parts[_SLOT_BITS], np.int64(1) << parts[_STRING_BITS]
    group_places = np.int64(1) << parts[_GROUP_BITS]
    return SegmentView(
        ints_at(parts[_SLOT_TABLE], slot_places),
        longs_at(parts[_SLOT_HASH], slot_places),
        ints_at(parts[_SLOT_ROWS], slots * SLOT_WIDTH).reshape((slots, SLOT_WIDTH)),
        bytes_at(parts[_NAMES], parts[_NAMES_SIZE]),
        ints_at(parts[_STRING_TABLE], string_places),
        longs_at(parts[_STRING_HASH], string_places),
        ints_at(parts[_STRING_START], parts[_STRINGS] + 1),
        bytes_at(parts[_TEXT], parts[_TEXT_SIZE]),
        ints_at(parts[_GROUP_TABLE], group_places),
        longs_at(parts[_GROUP_HASH], group_places),
        ints_at(parts[_GROUP_ROWS], parts[_GROUPS] * GROUP_WIDTH).reshape((parts[_GROUPS], GROUP_WIDTH)),
        longs_at(parts[_GROUP_VALUE], parts[_GROUPS]),
        longs_at(parts[_BLOOM], parts[_BLOOM_WORDS]),
        longs_at(parts[_FIRST_BYTES], slots * 4).reshape((slots, 4)),
        ints_at(parts[_LENGTHS], parts[_LENGTHS_SIZE]),
        ints_at(parts[_INTERFACE], postings),
        longs_at(parts[_NEEDS], postings),
        ints_at(parts[_RECORD_START], postings + 1),
        longs_at(parts[_LOWER], postings),
        longs_at(parts[_UPPER], postings),
        longs_at(parts[_BLOCK_UPPER], blocks),
        longs_at(parts[_BLOCKS_UPPER], (blocks + BLOCK - 1) // BLOCK),
        ints_at(parts[_TESTS], records),
        longs_at(parts[_A], records),
        longs_at(parts[_B], records),
    )
