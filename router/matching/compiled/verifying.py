"""The groups of a segment, found by hash, and verification of the postings whose access is satisfied.

`search` and `segment` are addresses of rows (`Search`, `Part`), `row` is that of an attribute.
Functions on postings return True when all interfaces that are to be matched have matched.
A group is the postings with one value of an access of =, prefix, suffix or substring.
"""

from __future__ import annotations

import numpy as np

from router.matching.compiled import (
    ACCESS_BITS,
    ACCESSES,
    AT,
    GROUP_END,
    GROUP_KEY,
    GROUP_OTHERS,
    GROUP_UNITS,
    GROUP_WIDTH,
    HITS,
    KEY,
    LENGTH,
    SLOT,
    SLOT_LENGTHS,
    SLOT_WIDTH,
    STRING,
    TYPE,
    Access,
    Part,
    Search,
    Test,
    callee,
    ending,
    mixed,
)
from router.native import I64, Address, Flag, byte_at, int_at, long_at, put_byte, put_int, put_long

_RANGE, _DIFFERS, _IS_STRING, _SAME = int(Test.RANGE), int(Test.DIFFERS), int(Test.IS_STRING), int(Test.EQUAL)
_UNEQUAL, _STARTS, _ENDS, _HOLDS = int(Test.UNEQUAL), int(Test.PREFIX), int(Test.SUFFIX), int(Test.SUBSTRING)
_BELOW, _AT_MOST, _ABOVE = int(Test.BELOW), int(Test.AT_MOST), int(Test.ABOVE)
#: A step takes as long as a few records, or as the comparison of a few bytes: exponents of 2.
_RECORDS, _BYTES = 2, 4


@callee
def spend(search: Address, steps: I64) -> Flag:
    """Counts steps of some 10 ns; True if the search has taken more than it may."""
    left = long_at(search, Search.STEPS) - steps
    put_long(search, Search.STEPS, left)
    return left < 0


@callee
def _is_open(open_: Address, which: I64) -> Flag:
    """Whether an interface is to be matched and has not matched yet; the number 0 has the turn itself."""
    return byte_at(open_, which) < byte_at(open_, 0)


@callee
def take_open(search: Address) -> None:
    """Adds every interface that has not matched."""
    open_, which = long_at(search, Search.OPEN), 1
    while long_at(search, Search.NUMBER) < long_at(search, Search.LIMIT):
        if _is_open(open_, which):
            _matched(search, open_, which)
        which += 1


@callee
def same_bytes(one: Address, other: Address, length: I64) -> Flag:
    """Whether the bytes at two addresses are equal."""
    for offset in range(length):  # noqa: SIM110 - a loop that compiles
        if byte_at(one, offset) != byte_at(other, offset):
            return False
    return True


@callee
def reached(bounds: Address, begin: I64, end: I64, key: I64, flip: I64) -> I64:
    """Returns the end of the bounds that a key satisfies.

    Args:
        flip: 0 for lower bounds, in ascending order; -1, which inverts all bits and so the order, for upper
            bounds, in descending order.
    """
    while begin < end:
        middle = (begin + end) >> 1
        if long_at(bounds, middle) ^ flip <= key ^ flip:
            begin = middle + 1
        else:
            end = middle
    return begin


@callee
def take(search: Address, segment: Address, begin: I64, end: I64) -> Flag:
    """Adds the interface of every posting in [begin, end)."""
    open_, interface = long_at(search, Search.OPEN), long_at(segment, Part.INTERFACE)
    for posting in range(begin, end):
        which = int_at(interface, posting)
        if _is_open(open_, which) and _matched(search, open_, which):
            return True
    return False


@callee
def verify(search: Address, segment: Address, begin: I64, end: I64, first: I64) -> Flag:
    """Adds the interface of every posting in [begin, end) whose records all accept the message.

    True also if the search has taken more steps than it may.

    Args:
        first: 1 if the message is known to pass the first record, which is the access; otherwise 0.
    """
    open_, interface, needs = (
        long_at(search, Search.OPEN),
        long_at(segment, Part.INTERFACE),
        long_at(segment, Part.NEEDS),
    )
    missing = ~long_at(search, Search.HAVE)
    for posting in range(begin, end):
        which = int_at(interface, posting)
        if _is_open(open_, which) and not long_at(needs, posting) & missing:
            passes = _passes_all(search, segment, posting, first)
            if spend(search, 1) or (passes and _matched(search, open_, which)):
                return True
    return False


@callee
def _matched(search: Address, open_: Address, which: I64) -> Flag:
    """Adds an interface to the answer."""
    number = long_at(search, Search.NUMBER)
    put_byte(open_, which, byte_at(open_, 0))
    put_int(long_at(search, Search.FOUND), number, which)
    put_long(search, Search.NUMBER, number + 1)
    return number + 1 >= long_at(search, Search.LIMIT)


@callee
def _passes_all(search: Address, segment: Address, posting: I64, first: I64) -> Flag:
    start, tests = long_at(segment, Part.RECORD_START), long_at(segment, Part.RECORD_TEST)
    attribute_of = long_at(search, Search.ATTRIBUTE_OF)
    lows, highs = long_at(segment, Part.RECORD_A), long_at(segment, Part.RECORD_B)
    for record in range(int_at(start, posting) + first, int_at(start, posting + 1)):
        code = int_at(tests, record)
        row = long_at(attribute_of, code >> ACCESS_BITS)
        test = code & (ACCESSES - 1)
        # The usual test without a call.
        if row != 0 and (
            long_at(lows, record) <= long_at(row, KEY) <= long_at(highs, record)
            if test == _RANGE
            else _passes(search, segment, row, test, record)
        ):
            continue
        spend(search, (record - int_at(start, posting)) >> _RECORDS)
        return False
    return True


@callee
def _passes(search: Address, segment: Address, row: Address, test: I64, record: I64) -> Flag:
    """Whether the value of an attribute passes the test of a record, which is not `Test.RANGE`."""
    a, b = long_at(long_at(segment, Part.RECORD_A), record), long_at(long_at(segment, Part.RECORD_B), record)
    key = long_at(row, KEY)
    if test == _DIFFERS:
        return key != a
    if test == _IS_STRING:
        return True
    if key != a and not _STARTS <= test <= _HOLDS:
        return test == _UNEQUAL or (test > _HOLDS and (key < a) == (test <= _AT_MOST))
    value, length = long_at(search, Search.BODY) + long_at(row, AT), long_at(row, LENGTH)
    start = int_at(long_at(segment, Part.STRING_START), b)
    text, size = (
        long_at(segment, Part.TEXT) + start,
        int_at(long_at(segment, Part.STRING_START), b + 1) - start,
    )
    if test <= _UNEQUAL and size != length:
        return test == _UNEQUAL
    spend(search, min(size, length) >> _BYTES)
    if test <= _UNEQUAL:
        return same_bytes(value, text, size) == (test == _SAME)
    if test <= _HOLDS:
        if size > length:
            return False
        if test == _STARTS:
            return same_bytes(value, text, size)
        if test == _ENDS:
            return same_bytes(value + length - size, text, size)
        return _contains(search, segment, row, b, text, size)
    order = _compare(value, length, text, size)
    if test == _BELOW:
        return order < 0
    if test == _AT_MOST:
        return order <= 0
    return order > 0 if test == _ABOVE else order >= 0


@callee
def _compare(value: Address, length: I64, text: Address, size: I64) -> I64:
    """Returns a negative number, 0 or a positive number: the value is below, equal to or above the text."""
    for offset in range(min(length, size)):
        difference = byte_at(value, offset) - byte_at(text, offset)
        if difference != 0:
            return difference
    return np.int64(length - size)


@callee
def _contains(
    search: Address, segment: Address, row: Address, number: I64, pattern: Address, size: I64
) -> Flag:
    """Whether the value of an attribute contains a string of the segment, which is not longer."""
    at, length = long_at(row, AT), long_at(row, LENGTH)
    value = long_at(search, Search.BODY) + at
    wanted = long_at(long_at(segment, Part.STRING_POLYNOMIAL), number)
    polynomials = long_at(search, Search.POLYNOMIALS) + 8 * at
    power, first = long_at(long_at(search, Search.POWERS), size), byte_at(pattern, 0)
    for offset in range(length - size + 1):
        if (
            byte_at(value, offset) == first
            and ending(long_at(polynomials, offset + size), long_at(polynomials, offset), power) == wanted
            and same_bytes(value + offset, pattern, size)
        ):
            spend(search, offset >> 1)
            return True
    spend(search, (length - size) >> 1)
    return False


_EQUAL, _PREFIX, _SUFFIX, _SUBSTRING = (int(Access[n]) for n in ("EQUAL", "PREFIX", "SUFFIX", "SUBSTRING"))


@callee
def find_equal(search: Address, segment: Address, row: Address) -> Flag:
    """Matches the group of the access = with the value of an attribute."""
    code, seed = long_at(row, SLOT) * ACCESSES + _EQUAL, long_at(search, Search.SEED)
    if long_at(row, TYPE) == STRING:
        at, length = long_at(row, AT), long_at(row, LENGTH)
        polynomial = long_at(long_at(search, Search.POLYNOMIALS), at + length)
        hashed, text = mixed(polynomial, length, code, seed), long_at(search, Search.BODY) + at
        return _hit(search, segment, _find(segment, hashed, code, text, length))
    key = long_at(row, KEY)
    return _hit(search, segment, _find(segment, mixed(key, 0, code, seed), code, key, -1))


@callee
def find_patterns(search: Address, segment: Address, row: Address) -> Flag:
    """Matches the groups of the patterns that the string value of an attribute has."""
    slot, at, length = long_at(row, SLOT), long_at(row, AT), long_at(row, LENGTH)
    lengths, value = long_at(segment, Part.LENGTHS), long_at(search, Search.BODY) + at
    begins = long_at(segment, Part.SLOT_ROWS) + 4 * (SLOT_WIDTH * slot + SLOT_LENGTHS)
    for access in (_PREFIX, _SUFFIX):
        begin, end = int_at(begins, access - _PREFIX), int_at(begins, access - _PREFIX + 1)
        if spend(search, min(end - begin, length)):
            return True
        for which in range(begin, end):
            size = int_at(lengths, which)
            if size > length:
                break
            first = at if access == _PREFIX else at + length - size
            group = _find_pattern(search, segment, slot * ACCESSES + access, first, size)
            if group >= 0 and _hit(search, segment, group):
                return True
    begin, end = int_at(begins, 2), int_at(begins, 3)
    if begin == end:
        return False
    first_bytes, seen = long_at(segment, Part.FIRST_BYTES) + 32 * slot, long_at(search, Search.SEEN)
    for first in range(length - int_at(lengths, begin) + 1):
        byte = byte_at(value, first)
        if not long_at(first_bytes, byte >> 6) >> (byte & 63) & 1:
            continue
        steps = 1
        for which in range(begin, end):
            size = int_at(lengths, which)
            if first + size > length:
                break
            group = _find_pattern(search, segment, slot * ACCESSES + _SUBSTRING, at + first, size)
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
        if verify(search, segment, long_at(hits, 2 * hit), long_at(hits, 2 * hit + 1), 1):
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
        if hit == HITS:
            return verify(search, segment, others, end, 1)
        put_long(long_at(search, Search.HITS), 2 * hit, others)
        put_long(long_at(search, Search.HITS), 2 * hit + 1, end)
        put_long(search, Search.HIT, hit + 1)
    return False


@callee
def _find_pattern(search: Address, segment: Address, code: I64, at: I64, length: I64) -> I64:
    """Returns the group of the pattern that is a part of a value, at an offset of the body; or -1."""
    polynomials, power = long_at(search, Search.POLYNOMIALS), long_at(long_at(search, Search.POWERS), length)
    polynomial = ending(long_at(polynomials, at + length), long_at(polynomials, at), power)
    hashed = mixed(polynomial, length, code, long_at(search, Search.SEED))
    bit = hashed >> 24 & (long_at(segment, Part.BLOOM_WORDS) * 64 - 1)
    if long_at(long_at(segment, Part.BLOOM), bit >> 6) >> (bit & 63) & 1:
        return _find(segment, hashed, code, long_at(search, Search.BODY) + at, length)
    return np.int64(-1)


@callee
def _find(segment: Address, hashed: I64, code: I64, value: I64, length: I64) -> I64:
    """Returns the group of an access and a value, or -1.

    Args:
        hashed: the hash of the group.
        code: slot * ACCESSES + access.
        value: the address of a text, or a key.
        length: the length of the text; negative: there is none.
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
            if length < 0:
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
