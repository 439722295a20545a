"""Bit vectors: the filters that a message fails are united, 64 of them with one instruction.

After the idea of HEM (DASFAA 2022), to mark by unions of bitmaps where REIN visits lists. For each slot and
each cell of its domain, a bitmap has the filters whose interval is all above or all below the cell; only
bounds in the cell of a key are compared, as in REIN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from router.native import I64, Array, Tuple
from tests.bench.peers import Boxes, kernel, part_of
from tests.bench.peers.rein import Rein, mark_absent, mark_within, unmarked

#: Bytes of bitmaps, at most.
_MOST = 2 << 30


@kernel
def _search(state: Tuple, slots: Array, keys: Array, found: Array) -> I64:
    (lowest, scale, cells, _), lists, space, marks, outside = state
    mark_absent(space, marks, slots, keys)
    failed = marks[2]
    for attribute in range(len(slots)):
        slot, key = slots[attribute], keys[attribute]
        cell = part_of(key, lowest[slot], scale[slot], cells)
        own = outside[slot, cell]
        for word in range(len(failed)):
            failed[word] |= own[word]
        above = slot * 2 * cells + cell
        mark_within(lists, above, above + cells, key, failed)
    return unmarked(failed, found)


@kernel
def _set_outside(layout: Tuple, boxes: Tuple, outside: Array, first: I64, last: I64, on: I64) -> None:
    """Sets the bits of filters to 0 or 1, in the cells that their intervals do not reach."""
    lowest, scale, cells, _ = layout
    start, count, slot, low, high = boxes
    for filter_ in range(first, last):
        word, bit = filter_ >> 6, 1 << (filter_ & 63)
        for row in range(start[filter_], start[filter_] + count[filter_]):
            own = slot[row]
            below = part_of(low[row], lowest[own], scale[own], cells)
            above = part_of(high[row], lowest[own], scale[own], cells)
            for cell in range(cells):
                if cell < below or cell > above:
                    outside[own, cell, word] = outside[own, cell, word] & ~bit | bit * on


class BitVectors(Rein):
    """The lists of `Rein`, a bucket for each cell, and the bitmaps."""

    buckets = 64
    search = staticmethod(_search)

    def __init__(self, boxes: Boxes) -> None:
        shape = boxes.slots, self.buckets, (boxes.room + 63) // 64
        if 8 * np.prod(shape) > _MOST:
            raise MemoryError(f"{8 * np.prod(shape) / 1e9:,.0f} GB of bitmaps")
        self._outside = np.zeros(shape, np.int64)
        super().__init__(boxes)

    @property
    def state(self) -> tuple[Any, ...]:
        return *super().state, self._outside

    def _set(self, first: int, last: int, on: int) -> None:
        super()._set(first, last, on)
        _set_outside(self.layout, self.boxes.state, self._outside, first, last, on)
