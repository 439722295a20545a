"""H-Tree: filters in the buckets of a grid over a few slots; those of the message's buckets are verified.

Source: Qian, Cao, Zhu, Li, Wang: "H-Tree: An efficient index structure for event matching in
content-based publish/subscribe systems", IEEE TPDS 26(6), 2015. Cell i stands for cells i and i + 1 of the
domain together, so that an interval enters fewer cells, and a message looks into two. The authors index the
first slots and count "not constrained" as the last cell; in this module the indexed slots are those with
most intervals, "not constrained" is a cell of its own, and only buckets that have had a filter take memory.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from router.native import I64, Array, Flag, Real, Tuple
from tests.bench.peers import Boxes, accepts, callee, kernel, part_of, scales, scratch, spread
from tests.bench.peers.hashed import HashedPeer, find, find_or_put
from tests.bench.peers.lists import row_of


@callee
def _cells(grid: Tuple, boxes: Tuple, filter_: I64, own: I64) -> Tuple:
    """The first and last cell of a filter on a slot."""
    lowest, scale, _, cells = grid
    row = row_of(boxes, filter_, own)
    if row < 0:
        return cells, cells
    first = part_of(boxes[3][row], lowest[own], scale[own], cells)
    return first, max(first, part_of(boxes[4][row], lowest[own], scale[own], cells) - 1)


@kernel
def _copies(grid: Tuple, boxes: Tuple) -> Real:
    """The entries of all filters together."""
    total = 0.0
    for filter_ in range(len(boxes[1])):
        product = 1.0 * (boxes[1][filter_] >= 0)
        for own in grid[2]:
            first, last = _cells(grid, boxes, filter_, own)
            product *= last - first + 1
        total += product
    return total


@callee
def _cross(keys: Array, begin: I64, size: I64, first: I64, last: I64, cells: I64, free: Flag) -> I64:
    """Adds a cell to the keys of buckets: each of first to last, and "not constrained" if `free`."""
    count = last - first + 1 + free
    for at in range(size - 1, -1, -1):
        key = keys[begin + at] * (cells + 1)
        for offset in range(count):
            keys[begin + at * count + offset] = key + (first + offset if first + offset <= last else cells)
    return size * count


@kernel
def _enter(
    layout: Tuple, boxes: Tuple, first: I64, last: I64, numbers: Array, filters: Array, _bounds: Array
) -> Tuple:
    table, fill, grid = layout
    used = 0
    for filter_ in range(first, last):
        if boxes[1][filter_] < 0:
            continue
        numbers[used], size = 0, 1
        for own in grid[2]:
            low, high = _cells(grid, boxes, filter_, own)
            if used + size * (high - low + 1) >= len(numbers):
                return filter_, used
            size = _cross(numbers, used, size, low, high, grid[3], False)
        for place in range(used, used + size):
            numbers[place] = find_or_put(table, fill, numbers[place])
        filters[used : used + size] = filter_
        used += size
    return last, used


@kernel
def _search(state: Tuple, slots: Array, keys: Array, found: Array) -> I64:
    (table, _, (lowest, scale, indexed, cells)), lists, boxes, space, seen, buckets = state
    at, size, filters, _ = lists
    spread(space, slots, keys)
    key_of, epochs, epoch = space
    buckets[0], count, number = 0, 1, 0
    for own in indexed:
        if epochs[own] == epoch[0]:
            cell = part_of(key_of[own], lowest[own], scale[own], cells)
            count = _cross(buckets, 0, count, max(cell - 1, 0), cell, cells, True)
        else:
            count = _cross(buckets, 0, count, cells, cells, cells, False)
    for bucket in range(count):
        own = find(table, buckets[bucket])
        if own >= 0:
            for place in range(at[own], at[own] + size[own]):
                filter_ = filters[place]
                if seen[filter_] != epoch[0]:
                    seen[filter_] = epoch[0]
                    if accepts(boxes, filter_, space):
                        found[number] = filter_
                        number += 1
    return number


class HTree(HashedPeer):
    """Keys of buckets: the cells of the indexed slots as the digits of a number of base `cells` + 1.

    Attributes:
        levels: slots that are indexed, at most.
        cells: of an indexed slot.
        most: entries, at most; a table that needs more raises MemoryError.
    """

    levels: ClassVar[int] = 8
    cells: ClassVar[int] = 8
    most: ClassVar[int] = 100_000_000
    search, enter = staticmethod(_search), staticmethod(_enter)

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        domains = boxes.domains()
        intervals = np.bincount(boxes.slot, minlength=boxes.slots)
        indexed = np.argsort(-intervals, kind="stable")[: self.levels]
        self._grid = domains[0], scales(domains, self.cells), indexed, self.cells
        if (copies := _copies(self._grid, boxes.state)) > self.most:
            raise MemoryError(f"{copies:,.0f} entries")
        self._space, self._seen = scratch(boxes.slots), np.zeros(boxes.room, np.int64)
        self._buckets = np.zeros(3 ** len(indexed), np.int64)
        self.file_hashed()

    @property
    def layout(self) -> tuple[Any, ...]:
        return self.table, self.fill, self._grid

    @property
    def state(self) -> tuple[Any, ...]:
        return self.layout, self.lists.state, self.boxes.state, self._space, self._seen, self._buckets
