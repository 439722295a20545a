"""Sets of keys of one total order, as sorted lists of half-open intervals.

Every value of every CBCB type maps to a key such that the order of keys is that of values
(`router.predicates.covering.values`), and whatever the comparison operators and the prefix operator can say
is a union of half-open intervals ``[low, high)`` of keys. Lists are kept sorted, disjoint and not touching,
so two lists are equal exactly when they denote the same set.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import Any

#: `int` for integers, doubles and booleans, `bytes` for strings; never mixed in one set.
Key = Any
Interval = tuple[Key, Key]
Intervals = tuple[Interval, ...]


def union(*sets: Intervals) -> Intervals:
    """The keys in at least one of the sets."""
    merged: list[Interval] = []
    for low, high in sorted(interval for intervals in sets for interval in intervals):
        if merged and low <= merged[-1][1]:
            if high > merged[-1][1]:
                merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def intersection(a: Intervals, b: Intervals) -> Intervals:
    """The keys in both sets."""
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
    """What lies between the first and the last key and is not in the set."""
    return tuple((a[1], b[0]) for a, b in pairwise(intervals))


def difference(a: Intervals, b: Intervals) -> Intervals:
    """The keys in `a` that are not in `b`."""
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


def holds(intervals: Intervals, key: Key) -> bool:
    """Whether the key is in the set."""
    return any(low <= key < high for low, high in intervals)


def holds_below(intervals: Intervals, top: Key) -> bool:
    """Whether all keys just below `top` are in the set."""
    return any(low < top <= high for low, high in intervals)


def _low(interval: Interval) -> Key:
    return interval[0]
