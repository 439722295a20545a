"""TAMA: filters at the nodes of a binary tree of each slot; a message counts down along a path.

Source: Zhao, Wu: "Towards approximate event processing in a large-scale content-based network", ICDCS 2011.
The tree cuts a domain in halves down to a depth; the paper counts a leaf that an interval covers partly as
covered. The exact form, which the authors of REIN compare theirs with, has such intervals in further lists
of the leaves, and verifies them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from router.native import I64, Array, Tuple
from tests.bench.peers import HIGHEST, LOWEST, Boxes, callee, kernel, part_of
from tests.bench.peers.lists import ListPeer, all_of, count_down, halvings, row_of


@callee
def _file(layout: Tuple, own: I64, low: I64, high: I64, numbers: Array, used: I64) -> I64:
    """Writes the lists of an interval: its nodes are disjoint, at most two of each level."""
    (lowest, scale, parts), bases, exact = layout
    base, leaves = bases[own], parts[own]
    left = part_of(low, lowest[own], scale[own], leaves)
    right = part_of(high, lowest[own], scale[own], leaves)
    cuts_right = high != HIGHEST and part_of(high + 1, lowest[own], scale[own], leaves) == right
    cuts_left = low != LOWEST and part_of(low - 1, lowest[own], scale[own], leaves) == left
    if exact and (cuts_left or (cuts_right and left == right)):
        numbers[used] = base + 2 * leaves + left
        left, used = left + 1, used + 1
    if exact and cuts_right and left <= right:
        numbers[used] = base + 2 * leaves + right
        right, used = right - 1, used + 1
    left, right = left + leaves, right + leaves + 1
    while left < right:
        if left & 1:
            numbers[used] = base + left
            left, used = left + 1, used + 1
        if right & 1:
            right -= 1
            numbers[used] = base + right
            used += 1
        left, right = left >> 1, right >> 1
    return used


@kernel
def _enter(
    layout: Tuple, boxes: Tuple, first: I64, last: I64, numbers: Array, filters: Array, _bounds: Array
) -> Tuple:
    start, count, slot, low, high = boxes
    used = 0
    for filter_ in range(first, last):
        # More than any tree has levels.
        if used + 2 * 64 * count[filter_] >= len(numbers):
            return filter_, used
        begin = used
        if count[filter_] == 0:
            numbers[used] = 0
            used += 1
        for row in range(start[filter_], start[filter_] + count[filter_]):
            used = _file(layout, slot[row], low[row], high[row], numbers, used)
        filters[begin:used] = filter_
    return last, used


@kernel
def _search(state: Tuple, slots: Array, keys: Array, found: Array) -> I64:
    ((lowest, scale, parts), bases, exact), lists, boxes, counters = state
    at, size, filters, _ = lists
    _, count, _, low, high = boxes
    counters[:] = count
    number = all_of(lists, 0, found)
    for attribute in range(len(slots)):
        slot, key = slots[attribute], keys[attribute]
        node = parts[slot] + part_of(key, lowest[slot], scale[slot], parts[slot])
        if exact:
            own = bases[slot] + parts[slot] + node
            for place in range(at[own], at[own] + size[own]):
                row = row_of(boxes, filters[place], slot)
                if low[row] <= key and key <= high[row]:
                    number = count_down(filters[place], counters, found, number)
        while node:
            own = bases[slot] + node
            for place in range(at[own], at[own] + size[own]):
                number = count_down(filters[place], counters, found, number)
            node >>= 1
    return number


class Tama(ListPeer):
    """Filters in lists by the nodes of a tree for each slot.

    List 0 has the filters without intervals. Then come for each slot the nodes, by 1 for the root, 2n and
    2n + 1 for the children of n; behind them the leaves' lists of intervals that cover them partly.

    Attributes:
        depth: of a tree, at most; a domain of fewer keys has a lower tree.
    """

    depth: ClassVar[int] = 17
    search, enter = staticmethod(_search), staticmethod(_enter)

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        trees = halvings(boxes, self.depth)
        ends = 1 + np.cumsum((3 if self.exact else 2) * trees[2])
        self._layout = trees, np.concatenate([[1], ends[:-1]]), self.exact
        self._counters = np.empty(boxes.room, np.int32)
        self.file(int(ends[-1]))

    @property
    def state(self) -> tuple[Any, ...]:
        first, count, *rows = self.boxes.state
        if not self.exact:
            first, rows = first[:0], [row[:0] for row in rows]
        return self._layout, self.lists.state, (first, count, *rows), self._counters


class ApproximateTama(Tama):
    """Also finds filters that a message misses by less than the width of a leaf, for each interval."""

    exact = False
