"""Counting: each bound that a message satisfies counts for its filter; a filter with all its bounds matches.

The algorithm that the other papers compare themselves with; source: Yan, Garcia-Molina: "Index structures for
selective dissemination of information under the Boolean model", TODS 1994. Without the switches of
`router.matching.counting`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from router.native import I64, Array, Tuple
from tests.bench.peers import Boxes, kernel, part_of, scales
from tests.bench.peers.lists import ListPeer


@kernel
def _enter(
    layout: Tuple, boxes: Tuple, first: I64, last: I64, numbers: Array, filters: Array, bounds: Array
) -> Tuple:
    lowest, scale, buckets = layout
    start, count, slot, low, high = boxes
    used = 0
    for filter_ in range(first, last):
        if used + 2 * count[filter_] > len(numbers):
            return filter_, used
        for row in range(start[filter_], start[filter_] + count[filter_]):
            own = slot[row]
            base = 3 * buckets * own
            lower = part_of(low[row], lowest[own], scale[own], buckets)
            upper = part_of(high[row], lowest[own], scale[own], buckets)
            filters[used], bounds[used] = filter_, low[row]
            if low[row] == high[row]:
                numbers[used] = base + 2 * buckets + lower
                used += 1
                continue
            numbers[used], numbers[used + 1] = base + lower, base + buckets + upper
            filters[used + 1], bounds[used + 1] = filter_, high[row]
            used += 2
    return last, used


@kernel
def _search(state: Tuple, slots: Array, keys: Array, found: Array) -> I64:
    (lowest, scale, buckets), (at, size, filters, bounds), count, left = state
    for filter_ in range(len(left)):
        left[filter_] = 2 * count[filter_]
    for attribute in range(len(slots)):
        slot, key = slots[attribute], keys[attribute]
        lower = 3 * buckets * slot
        upper, equal = lower + buckets, lower + 2 * buckets
        part = part_of(key, lowest[slot], scale[slot], buckets)
        # Of the buckets of a key all bounds are compared, of those beside it none.
        for own in (lower + part, upper + part, equal + part):
            for place in range(at[own], at[own] + size[own]):
                if own < upper:
                    left[filters[place]] -= bounds[place] <= key
                elif own < equal:
                    left[filters[place]] -= bounds[place] >= key
                elif bounds[place] == key:
                    left[filters[place]] -= 2
        for first, end in ((lower, lower + part), (upper + part + 1, equal)):
            for own in range(first, end):
                for place in range(at[own], at[own] + size[own]):
                    left[filters[place]] -= 1
    number = 0
    for filter_ in range(len(left)):
        if left[filter_] == 0:
            found[number] = filter_
            number += 1
    return number


class Counting(ListPeer):
    """Lists of slot s from 3 * buckets * s on: buckets of lower bounds, of upper bounds, of equalities."""

    buckets: ClassVar[int] = 100
    bounded = True
    search, enter = staticmethod(_search), staticmethod(_enter)

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        domains = boxes.domains()
        self._layout = domains[0], scales(domains, self.buckets), self.buckets
        self._left = np.zeros(boxes.room, np.int32)
        self.file(3 * self.buckets * boxes.slots)

    @property
    def layout(self) -> tuple[Any, ...]:
        return self._layout

    @property
    def state(self) -> tuple[Any, ...]:
        return self._layout, self.lists.state, self.boxes.count, self._left
