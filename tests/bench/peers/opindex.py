"""OpIndex: the constraints of a filter are filed under its rarest slot, by operator and slot, and counted.

Source: Zhang, Chan, Tan: "An efficient publish/subscribe index for e-commerce databases", PVLDB 7(8), 2014.
The rarest slot is the pivot. An interval [v, v] is one constraint, another interval one for each end that
it has, or one for the lowest key. The authors cut the list of an operator into segments by
slot and these into signatures by a hash, and a bit says that a signature has entries; in this module a list
has entries of a single slot, which are therefore not compared by slot. The authors scan lists; in the sorted
form the entries that hold are consecutive, and end where a binary search says.

Frequencies are those at the build, and decide the pivot of later filters, too.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from router.native import I64, Array, Flag, Tuple
from tests.bench.peers import HIGHEST, LOWEST, Boxes, callee, kernel
from tests.bench.peers.hashed import HashedPeer, find, find_or_put, mix
from tests.bench.peers.lists import all_of, count_down

_EQUAL, _LEAST, _MOST = range(3)
#: As the authors have; a word has the bits of a segment.
_SEGMENTS, _SIGNATURES = 32, 61


@callee
def _list(pivot: I64, operator: I64, slot: I64, bound: I64, slots: I64) -> Tuple:
    """The signature and the key of a list; key 0 is that of the filters without intervals."""
    signature = mix(mix(slot) ^ bound if operator == _EQUAL else mix(slot)) % _SIGNATURES
    return signature, ((pivot * slots + slot) * 3 + operator) * _SIGNATURES + signature + 1


@kernel
def _enter(
    layout: Tuple, boxes: Tuple, first: I64, last: I64, numbers: Array, filters: Array, bounds: Array
) -> Tuple:
    table, fill, frequency, needed, present, _ = layout
    start, count, slot, low, high = boxes
    used = 0
    for filter_ in range(first, last):
        if used + 2 * count[filter_] >= len(numbers):
            return filter_, used
        begin, pivot = used, -1
        if count[filter_] == 0:
            numbers[used] = find_or_put(table, fill, 0)
            used += 1
        rows = range(start[filter_], start[filter_] + count[filter_])
        for row in rows:
            if pivot < 0 or frequency[slot[row]] < frequency[pivot]:
                pivot = slot[row]
        for row in rows:
            for operator in range(3):
                bound = high[row] if operator == _MOST else low[row]
                single, open_low = low[row] == high[row], low[row] == LOWEST and high[row] != HIGHEST
                left_out = (operator == _LEAST and open_low) or (operator == _MOST and bound == HIGHEST)
                if single == (operator == _EQUAL) and not left_out:
                    signature, key = _list(pivot, operator, slot[row], bound, len(present))
                    present[pivot, operator, slot[row] % _SEGMENTS] |= 1 << signature
                    numbers[used], bounds[used] = find_or_put(table, fill, key), bound
                    used += 1
        filters[begin:used] = filter_
        needed[filter_] = used - begin
    return last, used


@callee
def _first(bounds: Array, begin: I64, end: I64, key: I64, above: Flag) -> I64:
    """The first of ascending bounds that is at least a key, or above it."""
    while begin < end:
        middle = (begin + end) >> 1
        if bounds[middle] < key or (above and bounds[middle] == key):
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def _search(state: Tuple, slots: Array, keys: Array, found: Array) -> I64:
    (table, _, _, needed, present, ordered), (at, size, filters, bounds), counters = state
    counters[:] = needed
    number, always = 0, find(table, 0)
    if always >= 0:
        number = all_of(state[1], always, found)
    for pivot in slots:
        if not present[pivot].any():
            continue
        for attribute in range(len(slots)):
            slot, key = slots[attribute], keys[attribute]
            for operator in range(3):
                signature, own = _list(pivot, operator, slot, key, len(present))
                if present[pivot, operator, slot % _SEGMENTS] >> signature & 1 == 0:
                    continue
                own = find(table, own)
                if own < 0:
                    continue
                begin, end = at[own], at[own] + size[own]
                low = LOWEST if operator == _LEAST else key
                high = HIGHEST if operator == _MOST else key
                if ordered:
                    begin = _first(bounds, begin, end, low, False)
                    end = _first(bounds, begin, end, high, True)
                for place in range(begin, end):
                    if ordered or (low <= bounds[place] and bounds[place] <= high):
                        number = count_down(filters[place], counters, found, number)
    return number


@kernel
def _settle(lists: Tuple, numbers: Array) -> None:
    """Sorts lists in which a single entry is out of order."""
    at, size, filters, bounds = lists
    for own in numbers:
        for last in range(at[own] + 1, at[own] + size[own]):
            place, filter_, bound = last, filters[last], bounds[last]
            while place > at[own] and bounds[place - 1] > bound:
                filters[place], bounds[place] = filters[place - 1], bounds[place - 1]
                place -= 1
            filters[place], bounds[place] = filter_, bound


class OpIndex(HashedPeer):
    """Scans the lists, as the authors' program does."""

    ordered: ClassVar[bool] = False
    bounded = True
    search, enter = staticmethod(_search), staticmethod(_enter)

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        self._frequency = np.bincount(boxes.slot, minlength=boxes.slots)
        self._needed, self._counters = np.zeros(boxes.room, np.int32), np.zeros(boxes.room, np.int32)
        self._present = np.zeros((boxes.slots, 3, _SEGMENTS), np.int64)
        self.file_hashed()

    @property
    def layout(self) -> tuple[Any, ...]:
        return self.table, self.fill, self._frequency, self._needed, self._present, self.ordered

    @property
    def state(self) -> tuple[Any, ...]:
        return self.layout, self.lists.state, self._counters


class SortedOpIndex(OpIndex):
    """Sorts the lists by their bounds."""

    ordered = True

    def file(self, lists: int) -> None:
        super().file(lists)
        own, held = np.repeat(np.arange(lists), self.lists.size), self.lists
        order = np.lexsort((held.bound, own))
        held.filter, held.bound = held.filter[order], held.bound[order]

    def _insert(self, number: int) -> None:
        super()._insert(number)
        self._settle(number)

    def _delete(self, number: int) -> None:
        super()._delete(number)
        self._settle(number)

    def _settle(self, number: int) -> None:
        for numbers, _, _ in self._entries(number, number + 1):
            _settle(self.lists.state, numbers)
