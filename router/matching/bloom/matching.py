"""Matching of one message against the segments of a table, in a single call of compiled code.

`search` and `segment` are addresses of rows (`layout.Search`, `layout.Part`). Functions that add matching
interfaces return the number of interfaces found until then.
"""

from __future__ import annotations

import numpy as np

from router.matching.bloom.compiler import callee, kernel
from router.matching.bloom.layout import CHUNK, TABLE_COUNT, TABLE_SEARCH, TABLE_SEGMENTS, Part, Search
from router.native.bits import trailing_zeros, without_lowest
from router.native.compiler import I64, Address, Array, Flag
from router.native.memory import byte_at, int_at, long_at, put_byte, put_int, put_long, short_at

_RANK, _WORDS, _ROWS = int(Part.RANK), int(Part.WORDS), int(Part.ROWS)
_NEXT, _AFTER = int(Part.NEXT), int(Part.AFTER)
_START, _INTERFACE, _POPULAR = int(Part.START), int(Part.INTERFACE), int(Part.POPULAR)
_FIRST, _SECOND, _LIST = int(Part.FIRST), int(Part.SECOND), int(Part.LIST)
_HAVE, _PRESENT, _RANKS, _FOUND = (int(Search[n]) for n in ("HAVE", "PRESENT", "RANKS", "FOUND"))
_CANDIDATES = int(Search.CANDIDATES)


@kernel
def match(bits: Array, table: Address, open_interfaces: Address, limit: I64) -> I64:
    """Writes the dense numbers of the interfaces that match to the array `Search.FOUND`.

    Args:
        bits: B_m, the bytes of whole words.
        table: the address of a row (int64): address of the search, number of segments, address of each.
        open_interfaces: the address of a uint8 array by dense number: 1 for each interface to be matched; the
            first element is 0.
        limit: the number of interfaces to be matched; the search ends when all of them have matched.

    Returns:
        The number of interfaces that match.
    """
    message = np.int64(np.frombuffer(bits, np.uint8).ctypes.data)
    search, number = long_at(table, TABLE_SEARCH), np.int64(0)
    for at in range(long_at(table, TABLE_COUNT)):
        if number < limit:
            number = _search(
                search, long_at(table, TABLE_SEGMENTS + at), message, open_interfaces, number, limit
            )
    found = long_at(search, _FOUND)
    for at in range(number):
        put_byte(open_interfaces, int_at(found, at), 1)
    return number


@callee
def _search(
    search: Address, segment: Address, message: Address, open_interfaces: Address, number: I64, limit: I64
) -> I64:
    """Searches one segment."""
    count = _rank_message(search, segment, message)
    rows, words, have = long_at(segment, _ROWS), long_at(segment, _WORDS), long_at(search, _HAVE)
    for row in range(long_at(segment, _POPULAR)):
        if _covers(have, rows + 8 * words * row, words):
            number = _take(search, segment, row, open_interfaces, number, limit)
            if number == limit:
                return number
    first, second, lists = long_at(segment, _FIRST), long_at(segment, _SECOND), long_at(segment, _LIST)
    next_, after = long_at(segment, _NEXT), long_at(segment, _AFTER)
    present, ranks = long_at(search, _PRESENT), long_at(search, _RANKS)
    candidates = long_at(search, _CANDIDATES)
    # No branch depends on a filter before many filters are read, so that the processor waits for many cache
    # lines at the same time.
    waiting = np.int64(0)
    for at in range(count):
        rank = int_at(ranks, at)
        for number_of_list in range(int_at(first, rank), int_at(first, rank + 1)):
            other = short_at(second, number_of_list)
            if not byte_at(present, other):
                continue
            lacks, further = ~_window(have, other + 1), ~_window(have, other + 65)
            row, end = int_at(lists, number_of_list), int_at(lists, number_of_list + 1)
            while row < end:
                stop, kept = min(end, row + CHUNK), waiting
                while row < stop:
                    put_int(candidates, kept, row)
                    kept += np.int64(long_at(next_, row) & lacks == 0)
                    row += 1
                last = kept
                kept = waiting
                for place in range(waiting, last):
                    candidate = int_at(candidates, place)
                    put_int(candidates, kept, candidate)
                    kept += np.int64(long_at(after, candidate) & further == 0)
                waiting = kept
                if waiting > CHUNK:
                    number = _verify(search, segment, waiting, open_interfaces, number, limit)
                    waiting = np.int64(0)
                    if number == limit:
                        return number
    return _verify(search, segment, waiting, open_interfaces, number, limit)


@callee
def _verify(
    search: Address, segment: Address, waiting: I64, open_interfaces: Address, number: I64, limit: I64
) -> I64:
    """Compares the rows that wait in `Search.CANDIDATES` with the message."""
    rows, words, have = long_at(segment, _ROWS), long_at(segment, _WORDS), long_at(search, _HAVE)
    candidates = long_at(search, _CANDIDATES)
    for place in range(waiting):
        row = int_at(candidates, place)
        if _covers(have, rows + 8 * words * row, words):
            number = _take(search, segment, row, open_interfaces, number, limit)
            if number == limit:
                break
    return number


@callee
def _rank_message(search: Address, segment: Address, message: Address) -> I64:
    """Sorts the bits of the message by their ranks in the segment; returns their number."""
    words, rank = long_at(segment, _WORDS), long_at(segment, _RANK)
    have, present, ranks = long_at(search, _HAVE), long_at(search, _PRESENT), long_at(search, _RANKS)
    for word in range(words + 2):
        put_long(have, word, 0)
    for eight in range(8 * words):
        put_long(present, eight, 0)
    for word in range(words):
        left = long_at(message, word)
        while left != 0:
            place = short_at(rank, 64 * word + trailing_zeros(left))
            left = without_lowest(left)
            put_byte(present, place, 1)
            put_long(have, place >> 6, long_at(have, place >> 6) | np.int64(1) << (place & 63))
    count: I64 = np.int64(0)
    for word in range(words):
        left = long_at(have, word)
        while left != 0:
            put_int(ranks, count, 64 * word + trailing_zeros(left))
            left = without_lowest(left)
            count += 1
    return count


@callee
def _window(have: Address, start: I64) -> I64:
    """The 64 bits from `start` on, with 0 after the last word."""
    word, shift = start >> 6, start & 63
    low = long_at(have, word)
    if shift == 0:
        return low
    high = np.uint64(long_at(have, word + 1)) << np.uint64(64 - shift)
    return np.int64(np.uint64(low) >> np.uint64(shift) | high)


@callee
def _covers(have: Address, row: Address, words: I64) -> Flag:
    """Whether the message has every bit of a row."""
    lacking = np.int64(0)
    for word in range(words):
        lacking |= long_at(row, word) & ~long_at(have, word)
    return lacking == 0


@callee
def _take(
    search: Address, segment: Address, row: I64, open_interfaces: Address, number: I64, limit: I64
) -> I64:
    """Adds the interfaces of a row that have not matched yet."""
    start, interface, found = (
        long_at(segment, _START),
        long_at(segment, _INTERFACE),
        long_at(search, _FOUND),
    )
    for posting in range(int_at(start, row), int_at(start, row + 1)):
        dense = int_at(interface, posting)
        if byte_at(open_interfaces, dense):
            put_byte(open_interfaces, dense, 0)
            put_int(found, number, dense)
            number += 1
            if number == limit:
                break
    return number
