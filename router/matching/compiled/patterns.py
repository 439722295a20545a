"""The groups of a segment: postings with an access of =, prefix, suffix or substring, found by hash.

`search` and `segment` are addresses of rows (`layout.Search`, `layout.Part`), `row` is that of an attribute.
Functions that add matching interfaces return True when all interfaces that are to be matched have matched.
"""

from __future__ import annotations

import numpy as np

from router.matching.compiled.hashing import ending, mixed
from router.matching.compiled.layout import (
    ACCESSES,
    AT,
    GROUP_END,
    GROUP_KEY,
    GROUP_OTHERS,
    GROUP_UNITS,
    GROUP_WIDTH,
    KEY,
    LENGTH,
    SLOT,
    SLOT_LENGTHS,
    SLOT_WIDTH,
    STRING,
    TEXT,
    TYPE,
    Access,
    Part,
    Search,
    callee,
)
from router.matching.compiled.verifying import same_bytes, spend, take, verify
from router.native.compiler import I64, Address, Flag
from router.native.memory import byte_at, int_at, long_at, put_long

_EQUAL, _PREFIX, _SUFFIX, _SUBSTRING = (int(Access[n]) for n in ("EQUAL", "PREFIX", "SUFFIX", "SUBSTRING"))


@callee
def find_equal(search: Address, segment: Address, row: Address) -> Flag:
    """Matches the group of the access = with the value of an attribute."""
    value = long_at(row, TEXT) if long_at(row, TYPE) == STRING else long_at(row, KEY)
    code = long_at(row, SLOT) * ACCESSES + _EQUAL
    return _hit(
        search, segment, _find(segment, mixed(value, 0, code, long_at(search, Search.SEED)), code, value, 0)
    )


@callee
def find_patterns(search: Address, segment: Address, row: Address) -> Flag:
    """Matches the groups of the patterns that the string value of an attribute has."""
    slot, at, length = long_at(row, SLOT), long_at(row, AT), long_at(row, LENGTH)
    polynomials, powers = long_at(search, Search.POLYNOMIALS), long_at(search, Search.POWERS)
    lengths, value = long_at(segment, Part.LENGTHS), long_at(search, Search.BODY) + at
    seed = long_at(search, Search.SEED)
    slot_row = long_at(segment, Part.SLOT_ROWS) + 4 * SLOT_WIDTH * slot
    prefixes, suffixes = int_at(slot_row, SLOT_LENGTHS), int_at(slot_row, SLOT_LENGTHS + 1)
    substrings, end = int_at(slot_row, SLOT_LENGTHS + 2), int_at(slot_row, SLOT_LENGTHS + 3)
    if spend(search, min(suffixes - prefixes, length) + min(substrings - suffixes, length)):
        return True
    for which in range(prefixes, suffixes):
        size = int_at(lengths, which)
        if size > length:
            break
        polynomial = long_at(polynomials, at + size)
        group = _find_pattern(segment, slot * ACCESSES + _PREFIX, polynomial, value, size, seed)
        if group >= 0 and _hit(search, segment, group):
            return True
    for which in range(suffixes, substrings):
        size = int_at(lengths, which)
        if size > length:
            break
        before = long_at(polynomials, at + length - size)
        polynomial = ending(long_at(polynomials, at + length), before, long_at(powers, size))
        group = _find_pattern(
            segment, slot * ACCESSES + _SUFFIX, polynomial, value + length - size, size, seed
        )
        if group >= 0 and _hit(search, segment, group):
            return True
    if substrings == end:
        return False
    first_bytes, seen = long_at(segment, Part.FIRST_BYTES) + 32 * slot, long_at(search, Search.SEEN)
    shortest = int_at(lengths, substrings)
    for first in range(length - shortest + 1):
        byte = byte_at(value, first)
        if not long_at(first_bytes, byte >> 6) >> (byte & 63) & 1:
            continue
        before, steps = long_at(polynomials, at + first), 1
        for which in range(substrings, end):
            size = int_at(lengths, which)
            if first + size > length:
                break
            polynomial = ending(long_at(polynomials, at + first + size), before, long_at(powers, size))
            group = _find_pattern(
                segment, slot * ACCESSES + _SUBSTRING, polynomial, value + first, size, seed
            )
            steps += 1 if group < 0 else 1 + (size >> 4)
            # A string may contain a substring several times.
            if group >= 0 and long_at(seen, group) != long_at(search, Search.ROUND):
                put_long(seen, group, long_at(search, Search.ROUND))
                if _hit(search, segment, group):
                    return True
        if spend(search, steps):
            return True
    return False


@callee
def verify_hits(search: Address, segment: Address) -> Flag:
    """Verifies the postings in `Search.HITS`."""
    hits = long_at(search, Search.HITS)
    for hit in range(long_at(search, Search.HIT)):
        if verify(search, segment, long_at(hits, 2 * hit), long_at(hits, 2 * hit + 1)):
            return True
    return False


@callee
def _hit(search: Address, segment: Address, group: I64) -> Flag:
    """Matches the units of a group, and puts its other postings into `Search.HITS`; -1 is no group."""
    if group < 0:
        return False
    group_row = long_at(segment, Part.GROUP_ROWS) + 4 * GROUP_WIDTH * group
    units, others, end = (
        int_at(group_row, GROUP_UNITS),
        int_at(group_row, GROUP_OTHERS),
        int_at(group_row, GROUP_END),
    )
    if take(search, segment, units, others):
        return True
    if others < end:
        hit = long_at(search, Search.HIT)
        if hit == long_at(search, Search.HITS_SIZE):
            return verify(search, segment, others, end)
        put_long(long_at(search, Search.HITS), 2 * hit, others)
        put_long(long_at(search, Search.HITS), 2 * hit + 1, end)
        put_long(search, Search.HIT, hit + 1)
    return False


@callee
def _find_pattern(
    segment: Address, code: I64, polynomial: I64, text: Address, length: I64, seed: Address
) -> I64:
    """Returns the group of a pattern, or -1."""
    hashed = mixed(polynomial, length, code, seed)
    bit = hashed >> 24 & (long_at(segment, Part.BLOOM_WORDS) * 64 - 1)
    if long_at(long_at(segment, Part.BLOOM), bit >> 6) >> (bit & 63) & 1:
        return _find(segment, hashed, code, text, length)
    return np.int64(-1)


@callee
def _find(segment: Address, hashed: I64, code: I64, value: I64, length: I64) -> I64:
    """Returns the group of an access and a value, or -1.

    Args:
        hashed: the hash of the group.
        code: slot * ACCESSES + access.
        value: the value of an equality, or the address of the text of a pattern.
        length: the length of the text.
    """
    table, hashes = long_at(segment, Part.GROUP_TABLE), long_at(segment, Part.GROUP_HASH)
    mask = (1 << long_at(segment, Part.GROUP_BITS)) - 1
    place = hashed & mask
    group = int_at(table, place)
    while group >= 0:
        if (
            long_at(hashes, place) == hashed
            and int_at(long_at(segment, Part.GROUP_ROWS), group * GROUP_WIDTH + GROUP_KEY) == code
        ):
            held = long_at(long_at(segment, Part.GROUP_VALUE), group)
            if code % ACCESSES == _EQUAL:
                if held == value:
                    return group
            else:
                start = int_at(long_at(segment, Part.STRING_START), held)
                size = int_at(long_at(segment, Part.STRING_START), held + 1) - start
                if size == length and same_bytes(value, long_at(segment, Part.TEXT) + start, length):
                    return group
        place = (place + 1) & mask
        group = int_at(table, place)
    return np.int64(-1)
