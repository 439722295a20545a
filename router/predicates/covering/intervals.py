"""Sets of keys of one total order, as sorted lists of half-open intervals; the parts of string intervals.

Every value of every CBCB type maps to a key so that keys order as values do
(`router.predicates.covering.values`). The values that satisfy a comparison or a prefix constraint are a union
of half-open intervals ``[low, high)`` of keys. A list of intervals is sorted, and its intervals are neither
overlapping nor adjacent, so two lists are equal exactly when they denote the same set.

Keys of strings are UTF-8 bytes; `TOP` is above every key. A *cone* is the set of all strings with a given
prefix. Every interval of strings is a finite union of cones and single strings. Questions about suffixes and
substrings are therefore decidable: in a cone, any text can follow the prefix.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
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


#: Above every string (0xff occurs in no UTF-8 text).
TOP = b"\xff"
_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
#: An interval whose two bounds have more bytes together is not taken apart.
_LENGTH_LIMIT = 2000


def after_cone(prefix: str) -> bytes:
    """Returns the lowest key above all strings with this prefix."""
    stem = prefix.rstrip(chr(_LAST))
    if not stem:
        return TOP
    code = ord(stem[-1]) + 1
    return (stem[:-1] + chr(_SURROGATES.stop if code in _SURROGATES else code)).encode()


@dataclass(frozen=True, slots=True)
class Parts:
    """An interval of strings as a union of cones and single strings.

    Attributes:
        points: the strings that are in none of the cones.
        stems: for each cone, or family of sibling cones, the longest common prefix of its strings. If a
            text is contained in no stem, every family has a cone whose prefix does not contain the text.
    """

    points: tuple[str, ...]
    stems: tuple[str, ...]


def take_apart(low: bytes, high: bytes) -> Parts | None:
    """Returns the parts of ``[low, high)``, where ``low < high``; None if the bounds are too long."""
    if len(low) + len(high) > _LENGTH_LIMIT:
        return None
    first = low.decode()
    if high == TOP:
        return Parts((), (first, *_above(first, 0)))
    end = high.decode()
    common = 0
    while common < min(len(first), len(end)) and first[common] == end[common]:
        common += 1
    if common == len(first):
        return Parts(tuple(end[:i] for i in range(common, len(end))), tuple(_below(end, common)))
    stems = [first, *_above(first, common + 1)]
    stems += _family(end[:common], _rank(first[common]) + 1, _rank(end[common]) - 1)
    stems += _below(end, common + 1)
    return Parts(tuple(end[:i] for i in range(common + 1, len(end))), tuple(stems))


def _above(text: str, start: int) -> list[str]:
    """The stems of the strings above `text` that share its first `start` characters."""
    last = _rank(chr(_LAST))
    return [stem for i in range(start, len(text)) for stem in _family(text[:i], _rank(text[i]) + 1, last)]


def _below(text: str, start: int) -> list[str]:
    """The stems of strings below `text` that share its first `start` characters and are no prefix of it."""
    return [stem for i in range(start, len(text)) for stem in _family(text[:i], 0, _rank(text[i]) - 1)]


def _family(prefix: str, first: int, last: int) -> list[str]:
    """The stem of the cones ``prefix + c`` for c of rank first to last; empty if there is no such c."""
    if first > last:
        return []
    return [prefix + _character(first)] if first == last else [prefix]


def _rank(character: str) -> int:
    """The number of characters below this one; surrogates do not count."""
    code = ord(character)
    return code if code < _SURROGATES.start else code - len(_SURROGATES)


def _character(rank: int) -> str:
    return chr(rank if rank < _SURROGATES.start else rank + len(_SURROGATES))
