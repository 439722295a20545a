"""Counting: each bound that a message satisfies counts for its filter; a filter with all its bounds matches.

The algorithm that the other papers compare themselves with; source: Yan, Garcia-Molina: "Index structures for
selective dissemination of information under the Boolean model", TODS 1994. Without the switches of
`router.matching.counting`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from router.native import I64, Array, Tuple
from tests.bench.peers import Boxes, kernel, part_of
from tests.bench.peers.lists import BucketPeer


@kernel
def _search(state: Tuple, slots: Array, keys: Array, found: Array) -> I64:
    (lowest, scale, buckets, _), (at, size, filters, bounds), count, left = state
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


class Counting(BucketPeer):
    """Counts the bounds that are left of each filter down."""

    buckets, kinds = 100, 3
    search = staticmethod(_search)

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        self._left = np.zeros(boxes.room, np.int32)

    @property
    def state(self) -> tuple[Any, ...]:
        return self._layout, self.lists.state, self.boxes.count, self._left
