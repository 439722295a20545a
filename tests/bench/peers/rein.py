"""REIN: marks the filters that a message fails; those without a mark match.

Source: Qian, Cao, Zhu, Li: "REIN: A fast event matching approach for content-based publish/subscribe
systems", INFOCOM 2014. The authors' messages have every attribute; in this module a bitmap for each slot
marks the filters on a slot that the message lacks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from router.native import I64, Array, Tuple, lowest_bit
from tests.bench.peers import Boxes, callee, kernel, part_of, scratch, spread
from tests.bench.peers.lists import BucketPeer


@callee
def mark_absent(space: Tuple, marks: Tuple, slots: Array, keys: Array) -> None:
    """Begins a search: marks the numbers without a filter, and the filters on slots that a message lacks."""
    constrained, live, failed = marks
    spread(space, slots, keys)
    _, epochs, epoch = space
    for word in range(len(failed)):
        failed[word] = ~live[word]
    for slot in range(len(epochs)):
        if epochs[slot] != epoch[0]:
            for word in range(len(failed)):
                failed[word] |= constrained[slot, word]


@callee
def mark_within(lists: Tuple, above: I64, below: I64, key: I64, failed: Array) -> None:
    """Marks the filters that a key fails, in its bucket of lower bounds and its bucket of upper bounds."""
    at, size, filters, bounds = lists
    for place in range(at[above], at[above] + size[above]):
        if bounds[place] > key:
            failed[filters[place] >> 6] |= 1 << (filters[place] & 63)
    for place in range(at[below], at[below] + size[below]):
        if bounds[place] < key:
            failed[filters[place] >> 6] |= 1 << (filters[place] & 63)


@callee
def unmarked(failed: Array, found: Array) -> I64:
    """Writes the numbers without a mark; returns how many."""
    number = 0
    for word in range(len(failed)):
        left = ~failed[word]
        while left:
            found[number] = 64 * word + lowest_bit(left)
            number += 1
            left &= left - 1
    return number


@callee
def _mark(lists: Tuple, first: I64, end: I64, failed: Array) -> None:
    """Marks all filters of consecutive lists."""
    at, size, filters, _ = lists
    for own in range(first, end):
        for place in range(at[own], at[own] + size[own]):
            failed[filters[place] >> 6] |= 1 << (filters[place] & 63)


@kernel
def _search(state: Tuple, slots: Array, keys: Array, found: Array) -> I64:
    (lowest, scale, buckets, _), lists, space, marks = state
    mark_absent(space, marks, slots, keys)
    failed = marks[2]
    for attribute in range(len(slots)):
        slot, key = slots[attribute], keys[attribute]
        part = part_of(key, lowest[slot], scale[slot], buckets)
        above = slot * 2 * buckets
        below = above + buckets
        _mark(lists, above + part + 1, below, failed)
        _mark(lists, below, below + part, failed)
        mark_within(lists, above + part, below + part, key, failed)
    return unmarked(failed, found)


class Rein(BucketPeer):
    buckets = 1_000
    search = staticmethod(_search)

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        words = (boxes.room + 63) // 64
        self._space = scratch(boxes.slots)
        self._constrained = np.zeros((boxes.slots, words), np.int64)
        self._live, self._failed = np.zeros(words, np.int64), np.zeros(words, np.int64)
        self._set(0, boxes.room, 1)

    @property
    def state(self) -> tuple[Any, ...]:
        marks = self._constrained, self._live, self._failed
        return self._layout, self.lists.state, self._space, marks

    def _set(self, first: int, last: int, on: int) -> None:
        _set_bits(self.boxes.state, self._constrained, self._live, first, last, on)

    def _insert(self, number: int) -> None:
        super()._insert(number)
        self._set(number, number + 1, 1)

    def _delete(self, number: int) -> None:
        super()._delete(number)
        self._set(number, number + 1, 0)


@kernel
def _set_bits(boxes: Tuple, constrained: Array, live: Array, first: I64, last: I64, on: I64) -> None:
    """Sets the bits of filters, and of their slots, to 0 or 1."""
    start, count, slot, _, _ = boxes
    for filter_ in range(first, last):
        word, bit = filter_ >> 6, 1 << (filter_ & 63)
        if count[filter_] >= 0:
            live[word] = live[word] & ~bit | bit * on
        for row in range(start[filter_], start[filter_] + count[filter_]):
            constrained[slot[row], word] = constrained[slot[row], word] & ~bit | bit * on
