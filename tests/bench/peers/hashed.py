"""Hash tables of int64 keys that are not negative: arrays of a power of 2, at most half full; -1: no key."""

from __future__ import annotations

import numpy as np

from router.native import I64, Array
from tests.bench.peers import callee

_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@callee
def mix(key: I64) -> I64:
    """Returns a hash of 32 bits."""
    return np.int64((np.uint64(key) * _FACTOR) >> np.uint64(32))


@callee
def _probe(table: Array, key: I64) -> I64:
    """The place of a key, or the free one where it would be."""
    place = mix(key) & (len(table) - 1)
    while table[place] >= 0 and table[place] != key:
        place = (place + 1) & (len(table) - 1)
    return place


@callee
def find(table: Array, key: I64) -> I64:
    """Returns the place of a key, which is not negative, in a table; -1: it has none."""
    place = _probe(table, key)
    return place if table[place] == key else -1


@callee
def find_or_put(table: Array, fill: Array, key: I64) -> I64:
    """Returns the place of a key, which it adds if need be; -1: half of the table is full."""
    place = _probe(table, key)
    if table[place] < 0:
        if 2 * fill[0] >= len(table):
            return -1
        table[place] = key
        fill[0] += 1
    return place
