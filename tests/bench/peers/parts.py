"""Parts of several peers: domains in a power of 2 of parts, rows by slot, counting down."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from router.native import I64, Array, Tuple
from tests.bench.peers import Boxes, Longs, callee


def halvings(boxes: Boxes, depth: int) -> tuple[Longs, npt.NDArray[np.float64], Longs]:
    """Cuts the domain of each slot in halves, down to 2**depth parts or to parts of a single key.

    A domain has one key more at each end, so that a part of a single key has no key from outside.

    Returns:
        The arguments lowest, scale and parts of `part_of`, by slot.
    """
    lowest, highest = boxes.domains()
    keys = highest.astype(np.float64) - lowest + 3
    parts = np.exp2(np.minimum(np.ceil(np.log2(keys)), depth))
    return lowest - 1, np.minimum(parts / keys, 1.0), parts.astype(np.int64)


@callee
def row_of(boxes: Tuple, number: I64, own: I64) -> I64:
    """Returns the row of a filter on a slot; -1: it has none."""
    first, count, slot, _, _ = boxes
    for row in range(first[number], first[number] + count[number]):
        if slot[row] == own:
            return row
    return -1


@callee
def all_of(lists: Tuple, own: I64, found: Array) -> I64:
    """Begins an answer with all filters of a list; returns how many."""
    at, size, filters, _ = lists
    for offset in range(size[own]):
        found[offset] = filters[at[own] + offset]
    return np.int64(size[own])


@callee
def count_down(filter_: I64, counters: Array, found: Array, number: I64) -> I64:
    """Counts an interval of a filter; writes the filter if it was the last; returns the numbers written."""
    counters[filter_] -= 1
    if counters[filter_] == 0:
        found[number] = filter_
        return number + 1
    return number
