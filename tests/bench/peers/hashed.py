"""Hash tables of int64 keys that are not negative: arrays of a power of 2, at most half full; -1: no key."""

from __future__ import annotations

import numpy as np

from router.native import I64, Array
from tests.bench.peers import Boxes, callee
from tests.bench.peers.lists import ListPeer

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


class HashedPeer(ListPeer):
    """A peer whose lists are those places of a hash table that have a key.

    Its `layout` includes `table` and `fill`; its `enter` writes -1 as the list of a key that finds no room.
    """

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        self.table, self.fill = np.full(64, -1), np.zeros(1, np.int64)

    def file_hashed(self) -> None:
        """Makes `table` and `lists` for all filters, once the rest of `layout` is known."""
        while self._lacks_room(0, self.boxes.room):
            self.table, self.fill = np.full(2 * len(self.table), -1), np.zeros(1, np.int64)
        self.file(len(self.table))

    def _lacks_room(self, first: int, last: int) -> bool:
        return any((numbers < 0).any() for numbers, _, _ in self._entries(first, last))

    def _insert(self, number: int) -> None:
        if self._lacks_room(number, number + 1):
            self.file_hashed()
        else:
            super()._insert(number)
