"""Sets of keys of one total order, as sorted lists of half-open intervals.

Every value of every CBCB type maps to a key so that keys order as values do
(`router.predicates.covering.values`). The values that satisfy a comparison or a prefix constraint are a union
of half-open intervals ``[low, high)`` of keys. A list of intervals is sorted, and its intervals are neither
overlapping nor adjacent, so two lists are equal exactly when they denote the same set.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

#: `int` for integers, doubles and booleans, `bytes` for strings; never mixed in one set.
Key = Any
Interval = tuple[Key, Key]
Intervals = tuple[Interval, ...]


def union(*sets: Iterable[Interval]) -> Intervals:
    """Returns the keys in at least one of the sets; the intervals of an argument may overlap."""
    merged: list[Interval] = []
    for low, high in sorted(interval for intervals in sets for interval in intervals):
        if merged and low <= merged[-1][1]:
            if high > merged[-1][1]:
                merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def intersection(a: Intervals, b: Intervals) -> Intervals:
    """Returns the keys in both sets."""
    result: list[Interval] = []
    i = j = 0
    while i < len(a) and j < len(b):
        low = max(a[i][0], b[j][0])
        high = min(a[i][1], b[j][1])
        if low < high:
            result.append((low, high))
        if a[i][1] <= b[j][1]:
            i += 1
        else:
            j += 1
    return tuple(result)


def gaps(intervals: Intervals) -> Intervals:
    """Returns the keys between the first and the last key that are not in the set."""
    return tuple((a[1], b[0]) for a, b in pairwise(intervals))


def difference(a: Intervals, b: Intervals) -> Intervals:
    """Returns the keys in `a` that are not in `b`."""
    if not a or not b:
        return a
    outside = [*gaps(b)]
    if a[0][0] < b[0][0]:
        outside.insert(0, (a[0][0], b[0][0]))
    if a[-1][1] > b[-1][1]:
        outside.append((b[-1][1], a[-1][1]))
    return intersection(a, tuple(outside))


def includes(a: Intervals, b: Intervals) -> bool:
    """Whether every key of `b` is in `a`."""
    if len(a) == 1:
        return not b or (a[0][0] <= b[0][0] and b[-1][1] <= a[0][1])
    for low, high in b:
        # The last interval of `a` that starts at or before `low`.
        position = bisect_right(a, low, key=_low) - 1
        if position < 0 or a[position][1] < high:
            return False
    return True


def contains(intervals: Intervals, key: Key) -> bool:
    """Whether the key is in the set."""
    if len(intervals) == 1:
        return bool(intervals[0][0] <= key < intervals[0][1])
    return any(low <= key < high for low, high in intervals)


def contains_below(intervals: Intervals, top: Key) -> bool:
    """Whether an interval of the set extends to `top`, so that the keys just below `top` are in the set."""
    if len(intervals) == 1:
        return bool(intervals[0][0] < top <= intervals[0][1])
    return any(low < top <= high for low, high in intervals)


def _low(interval: Interval) -> Key:
    return interval[0]
