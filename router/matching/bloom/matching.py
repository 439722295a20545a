"""Matching of one message against the segments of a table, in a single call of compiled code.

`search` and `segment` are addresses of rows (`Search`, `Part`), `message` is that of B_m.
Functions that add matching interfaces return the number of interfaces found until then.
"""

from __future__ import annotations

import numpy as np

from router.matching.bloom import (
    AHEAD,
    CHILD,
    CHUNK,
    LIST,
    NODE_COLUMNS,
    PICKED,
    PICKS,
    TABLE_COUNT,
    TABLE_SEARCH,
    TABLE_SEGMENTS,
    Part,
    Search,
    callee,
    kernel,
)
from router.native import (
    I64,
    Address,
    Array,
    Flag,
    byte_at,
    int_at,
    long_at,
    prefetch,
    put_byte,
    put_int,
    short_at,
)


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
    found = long_at(search, Search.FOUND)
    for at in range(number):
        put_byte(open_interfaces, int_at(found, at), 1)
    return number


@callee
def _search(
    search: Address, segment: Address, message: Address, open_interfaces: Address, number: I64, limit: I64
) -> I64:
    """Searches one segment."""
    rows, words = long_at(segment, Part.ROWS), long_at(segment, Part.WORDS)
    for row in range(long_at(segment, Part.POPULAR)):
        if _covers(message, rows + 8 * words * row, words):
            number = _take(search, segment, row, open_interfaces, number, limit)
            if number == limit:
                return number
    bit, node, picked = long_at(segment, Part.BIT), long_at(segment, Part.NODE), long_at(segment, Part.PICKED)
    nodes, candidates = long_at(search, Search.NODES), long_at(search, Search.CANDIDATES)
    # No branch depends on a bit or a filter before many of them are read, and what is far away is asked for
    # some nodes ahead, so that the processor waits for many cache lines at the same time.
    put_int(nodes, 0, 0)
    visited, reached, waiting = np.int64(0), np.int64(1), np.int64(0)
    while visited < reached:
        own = NODE_COLUMNS * int_at(nodes, visited)
        visited += 1
        for child in range(int_at(node, own + CHILD), int_at(node, own + NODE_COLUMNS + CHILD)):
            place = short_at(bit, child)
            put_int(nodes, reached, child)
            reached += long_at(message, place >> 6) >> (place & 63) & 1
            prefetch(node + 4 * NODE_COLUMNS * child)
    for at in range(AHEAD):
        if at == reached:
            break
        _prefetch_picked(picked, node, int_at(nodes, at))
    for at in range(reached):
        _prefetch_picked(picked, node, int_at(nodes, min(at + AHEAD, reached - 1)))
        own = NODE_COLUMNS * int_at(nodes, at)
        row, end = int_at(node, own + LIST), int_at(node, own + NODE_COLUMNS + LIST)
        lacks = _lacking(message, node, own)
        while row < end:
            stop = min(end, row + CHUNK)
            while row < stop:
                put_int(candidates, waiting, row)
                waiting += np.int64(long_at(picked, row) & lacks == 0)
                row += 1
            if waiting > CHUNK:
                number = _verify(search, segment, message, waiting, open_interfaces, number, limit)
                waiting = np.int64(0)
                if number == limit:
                    return number
    return _verify(search, segment, message, waiting, open_interfaces, number, limit)


@callee
def _prefetch_picked(picked: Address, node: Address, at: I64) -> None:
    """Asks for the picked bytes of the rows of a node."""
    first = 8 * int_at(node, NODE_COLUMNS * at + LIST)
    end = int(min(8 * int_at(node, NODE_COLUMNS * (at + 1) + LIST), first + 8 * CHUNK))
    for line in range(first, end, 64):
        prefetch(picked + line)


@callee
def _lacking(message: Address, node: Address, own: I64) -> I64:
    """Returns the bits that the message lacks in the bytes that a node picks; `own` is the node's row."""
    lacks = ~np.int64(0)
    for at in range(PICKED):
        byte = byte_at(message, short_at(node, 2 * (own + PICKS) + at))
        lacks ^= byte << 8 * at
    return lacks


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
    rows, words, candidates = (
        long_at(segment, Part.ROWS),
        long_at(segment, Part.WORDS),
        long_at(search, Search.CANDIDATES),
    )
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
        long_at(segment, Part.START),
        long_at(segment, Part.INTERFACE),
        long_at(search, Search.FOUND),
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
