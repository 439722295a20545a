"""Matching of one message against the segments of a table, in a single call of compiled code.

In each segment, units are found first: they need no verification, and an interface that has matched is
skipped afterwards. Then the other filters whose access is satisfied are verified.

`search` and `segment` are addresses of rows (`Search`, `Part`), `row` is that of an attribute.
Functions that add matching interfaces return True when all interfaces that are to be matched have matched.
"""

from __future__ import annotations

import numpy as np

from router.matching.compiled import (
    ATTRIBUTE_BYTES,
    BLOCK,
    CLOSED,
    KEY,
    NAME_AT,
    NAME_LENGTH,
    NAMED,
    SLOT,
    SLOT_EQUAL,
    SLOT_LISTS,
    SLOT_NAME,
    SLOT_NAME_LENGTH,
    SLOT_TYPE,
    SLOT_WIDTH,
    STRING,
    TYPE,
    Access,
    Part,
    Search,
    callee,
    kernel,
)
from router.matching.compiled.attributes import read_attributes
from router.matching.compiled.sieve import search_sieve
from router.matching.compiled.verifying import (
    find_equal,
    find_patterns,
    reached,
    same_bytes,
    take,
    take_open,
    verify,
    verify_hits,
)
from router.native import I64, Address, Array, Flag, byte_at, int_at, long_at, put_byte, put_long

_UNITS, _OTHERS = int(Access.PRESENT_UNIT), int(Access.PRESENT)
#: Columns of the row of a table: the search, the steps that a search may take, the number of segments, and
#: their addresses.
TABLE_SEARCH, TABLE_STEPS, TABLE_COUNT, TABLE_SEGMENTS = range(4)


@kernel
def match(body: Array, table: Address, open_interfaces: Address, limit: I64, trusted: I64) -> I64:
    """Writes the dense numbers of the interfaces that match to the array `Search.FOUND`.

    Args:
        body: the bytes of the body of a MSG.
        table: the address of a row (int64), see `TABLE_SEARCH`. If the search takes more steps than it may,
            the interfaces that are not decided by then count as matching.
        open_interfaces: the address of a uint8 array by dense number: 0 for each interface to be matched,
            `CLOSED` for the others; the first element is 0. The search leaves its turn (254 searches have
            different ones) in the first element, and in those of the interfaces that match.
        limit: the number of interfaces to be matched; the search ends when all of them have matched.
        trusted: see `read_attributes`.

    Returns:
        The number of interfaces that match, or the error code of `read_attributes`.
    """
    data = np.frombuffer(body, np.uint8)
    return match_at(np.int64(data.ctypes.data), len(data), table, open_interfaces, limit, trusted)


@callee
def match_at(
    address: Address, size: I64, table: Address, open_interfaces: Address, limit: I64, trusted: I64
) -> I64:
    """As `match`, for a body of `size` bytes at an address."""
    search = long_at(table, TABLE_SEARCH)
    count = read_attributes(search, address, size, trusted)
    put_long(search, Search.BODY, address)
    put_long(search, Search.COUNT, count)
    if count < 0 or limit == 0:
        return min(count, 0)
    if byte_at(open_interfaces, 0) + 1 == CLOSED:
        _begin_turns(open_interfaces, limit)
    put_byte(open_interfaces, 0, byte_at(open_interfaces, 0) + 1)
    put_long(search, Search.OPEN, open_interfaces)
    put_long(search, Search.LIMIT, limit)
    put_long(search, Search.NUMBER, 0)
    put_long(search, Search.STEPS, long_at(table, TABLE_STEPS))
    for number in range(long_at(table, TABLE_COUNT)):
        if _search(search, long_at(table, TABLE_SEGMENTS + number)):
            break
    put_long(
        search,
        Search.SPENT,
        long_at(search, Search.SPENT) + long_at(table, TABLE_STEPS) - long_at(search, Search.STEPS),
    )
    if long_at(search, Search.STEPS) < 0:
        take_open(search)
    return long_at(search, Search.NUMBER)


@callee
def _begin_turns(open_: Address, limit: I64) -> None:
    """Forgets the turns in which the interfaces to be matched, of number `limit`, have matched."""
    put_byte(open_, 0, 0)
    which = 1
    while limit > 0:
        if byte_at(open_, which) != CLOSED:
            put_byte(open_, which, 0)
            limit -= 1
        which += 1


@callee
def _search(search: Address, segment: Address) -> Flag:
    if take(search, segment, long_at(segment, Part.ALWAYS_START), long_at(segment, Part.ALWAYS_END)):
        return True
    if not _find_attributes(search, segment):
        return False
    put_long(search, Search.ROUND, long_at(search, Search.ROUND) + 1)
    put_long(search, Search.HIT, 0)
    done = _search_accesses(search, segment)
    row, attribute_of = long_at(search, Search.ROWS), long_at(search, Search.ATTRIBUTE_OF)
    for _ in range(long_at(search, Search.COUNT)):
        if long_at(row, SLOT) >= 0:
            put_long(attribute_of, long_at(row, SLOT), 0)
        row += ATTRIBUTE_BYTES
    return done


@callee
def _search_accesses(search: Address, segment: Address) -> Flag:
    """Matches the postings whose access the attributes of the message satisfy."""
    rows, count = long_at(search, Search.ROWS), long_at(search, Search.COUNT)
    for number in range(count):
        if _search_lists(search, segment, rows + number * ATTRIBUTE_BYTES, _UNITS):
            return True
    for number in range(count):
        row = rows + number * ATTRIBUTE_BYTES
        slot = long_at(row, SLOT)
        if slot < 0:
            continue
        if int_at(long_at(segment, Part.SLOT_ROWS), slot * SLOT_WIDTH + SLOT_EQUAL) and find_equal(
            search, segment, row
        ):
            return True
        if long_at(row, TYPE) == STRING and find_patterns(search, segment, row):
            return True
    if verify_hits(search, segment) or search_sieve(search, segment):
        return True
    for number in range(count):
        if _search_lists(search, segment, rows + number * ATTRIBUTE_BYTES, _OTHERS):
            return True
    return False


@callee
def _find_attributes(search: Address, segment: Address) -> Flag:
    """Finds the slots of the message's attributes; False if the segment has none of the slots."""
    row, attribute_of, have = long_at(search, Search.ROWS), long_at(search, Search.ATTRIBUTE_OF), 0
    for _ in range(long_at(search, Search.COUNT)):
        slot = _find_slot(search, segment, row)
        put_long(row, SLOT, slot)
        if slot >= 0:
            have |= 1 << (slot & 63)
            put_long(attribute_of, slot, row)
        row += ATTRIBUTE_BYTES
    put_long(search, Search.HAVE, have)
    return have != 0


@callee
def _find_slot(search: Address, segment: Address, row: Address) -> I64:
    """Returns the slot of an attribute's name and type, or -1."""
    table, hashes = long_at(segment, Part.SLOT_TABLE), long_at(segment, Part.SLOT_HASH)
    mask = (1 << long_at(segment, Part.SLOT_BITS)) - 1
    place = long_at(row, NAMED) & mask
    slot = int_at(table, place)
    while slot >= 0:
        if long_at(hashes, place) == long_at(row, NAMED):
            slot_row = long_at(segment, Part.SLOT_ROWS) + 4 * SLOT_WIDTH * slot
            name = long_at(segment, Part.NAMES) + int_at(slot_row, SLOT_NAME)
            if (
                int_at(slot_row, SLOT_TYPE) == long_at(row, TYPE)
                and int_at(slot_row, SLOT_NAME_LENGTH) == long_at(row, NAME_LENGTH)
                and same_bytes(
                    long_at(search, Search.BODY) + long_at(row, NAME_AT), name, long_at(row, NAME_LENGTH)
                )
            ):
                return slot
        place = (place + 1) & mask
        slot = int_at(table, place)
    return np.int64(-1)


@callee
def _search_lists(search: Address, segment: Address, row: Address, first: I64) -> Flag:
    """Matches the satisfied postings in four lists of an attribute's slot, from the access `first` on."""
    slot, key = long_at(row, SLOT), long_at(row, KEY)
    if slot < 0:
        return False
    lists = long_at(segment, Part.SLOT_ROWS) + 4 * (SLOT_WIDTH * slot + SLOT_LISTS + first)
    present, end = int_at(lists, 0), int_at(lists, 4)
    if present == end:
        return False
    from_, up_to, between = int_at(lists, 1), int_at(lists, 2), int_at(lists, 3)
    lower, upper = long_at(segment, Part.LOWER), long_at(segment, Part.UPPER)
    if (
        _satisfied(search, segment, present, from_, first)
        or _satisfied(search, segment, from_, reached(lower, from_, up_to, key, 0), first)
        or _satisfied(search, segment, up_to, reached(upper, up_to, between, key, -1), first)
    ):
        return True
    end = reached(lower, between, end, key, 0)
    posting = _next_reaching(segment, upper, between, end, key)
    while posting < end:
        if _satisfied(search, segment, posting, posting + 1, first):
            return True
        posting = _next_reaching(segment, upper, posting + 1, end, key)
    return False


@callee
def _satisfied(search: Address, segment: Address, begin: I64, end: I64, first: I64) -> Flag:
    """Matches postings whose access is satisfied: units directly, others after verification."""
    if first == _UNITS:
        return take(search, segment, begin, end)
    return verify(search, segment, begin, end, 0)


@callee
def _next_reaching(segment: Address, upper: Address, posting: I64, end: I64, key: I64) -> I64:
    """Returns the first posting with an upper bound of at least `key`; `end` or more if there is none."""
    block_upper, blocks_upper = long_at(segment, Part.BLOCK_UPPER), long_at(segment, Part.BLOCKS_UPPER)
    while posting < end:
        if posting % BLOCK == 0:
            if posting % (BLOCK * BLOCK) == 0 and long_at(blocks_upper, posting // (BLOCK * BLOCK)) < key:
                posting += BLOCK * BLOCK
                continue
            if long_at(block_upper, posting // BLOCK) < key:
                posting += BLOCK
                continue
        if long_at(upper, posting) >= key:
            return posting
        posting += 1
    return posting
