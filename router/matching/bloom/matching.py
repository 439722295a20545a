"""Matching of one message against the segments of a table, in a single call of compiled code.

`search` and `segment` are addresses of rows (`layout.Search`, `layout.Part`), `message` is that of B_m.
Functions that add matching interfaces return the number of interfaces found until then.
"""

from __future__ import annotations

import numpy as np

from router.matching.bloom.compiler import callee, kernel
from router.matching.bloom.layout import (
    CHILD,
    CHUNK,
    FIRST_WORD,
    LIST,
    NODE_COLUMNS,
    TABLE_COUNT,
    TABLE_SEARCH,
    TABLE_SEGMENTS,
    Part,
    Search,
)
from router.native.compiler import I64, Address, Array, Flag
from router.native.memory import byte_at, int_at, long_at, put_byte, put_int, short_at

_WORDS, _ROWS, _WORD, _POPULAR = int(Part.WORDS), int(Part.ROWS), int(Part.WORD), int(Part.POPULAR)
_START, _INTERFACE, _BIT, _NODE = int(Part.START), int(Part.INTERFACE), int(Part.BIT), int(Part.NODE)
_NODES, _FOUND, _CANDIDATES = int(Search.NODES), int(Search.FOUND), int(Search.CANDIDATES)


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
    rows, words = long_at(segment, _ROWS), long_at(segment, _WORDS)
    for row in range(long_at(segment, _POPULAR)):
        if _covers(message, rows + 8 * words * row, words):
            number = _take(search, segment, row, open_interfaces, number, limit)
            if number == limit:
                return number
    bit, node, word = long_at(segment, _BIT), long_at(segment, _NODE), long_at(segment, _WORD)
    nodes, candidates = long_at(search, _NODES), long_at(search, _CANDIDATES)
    # No branch depends on a bit or a filter before many of them are read, so that the processor waits for
    # many cache lines at the same time.
    put_int(nodes, 0, 0)
    visited, reached, waiting = np.int64(0), np.int64(1), np.int64(0)
    while visited < reached:
        own = NODE_COLUMNS * int_at(nodes, visited)
        visited += 1
        for child in range(int_at(node, own + CHILD), int_at(node, own + NODE_COLUMNS + CHILD)):
            place = short_at(bit, child)
            put_int(nodes, reached, child)
            reached += long_at(message, place >> 6) >> (place & 63) & 1
        row, end = int_at(node, own + LIST), int_at(node, own + NODE_COLUMNS + LIST)
        lacks = ~long_at(message, int_at(node, own + FIRST_WORD))
        while row < end:
            stop = min(end, row + CHUNK)
            while row < stop:
                put_int(candidates, waiting, row)
                waiting += np.int64(long_at(word, row) & lacks == 0)
                row += 1
            if waiting > CHUNK:
                number = _verify(search, segment, message, waiting, open_interfaces, number, limit)
                waiting = np.int64(0)
                if number == limit:
                    return number
    return _verify(search, segment, message, waiting, open_interfaces, number, limit)


@callee
def _verify(
    search: Address,
    segment: Address,
    message: Address,
    waiting: I64,
    open_interfaces: Address,
    number: I64,
    limit: I64,
) -> I64:
    """Compares the rows that wait in `Search.CANDIDATES` with the message."""
    rows, words, candidates = long_at(segment, _ROWS), long_at(segment, _WORDS), long_at(search, _CANDIDATES)
    for place in range(waiting):
        row = int_at(candidates, place)
        if _covers(message, rows + 8 * words * row, words):
            number = _take(search, segment, row, open_interfaces, number, limit)
            if number == limit:
                break
    return number


@callee
def _covers(message: Address, row: Address, words: I64) -> Flag:
    """Whether the message has every bit of a row."""
    lacking = np.int64(0)
    for word in range(words):
        lacking |= long_at(row, word) & ~long_at(message, word)
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
