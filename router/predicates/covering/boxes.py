"""Covering by several filters together, on any number of attributes.

A filter that asks intervals of d attributes is a box in d dimensions. Whether other boxes cover it together
is decided by taking them away from it piece by piece: the lowest corner of what is left must be in some
box; that box is cut out, which leaves at most d smaller boxes. The question is hard in general (it is that
of validity of a propositional formula), so the search is bounded; beyond the bound the answer is "not
known to be covered".
"""

from __future__ import annotations

from heapq import nsmallest

from router.predicates.covering import intervals as iv
from router.predicates.covering.index import FilterIndex
from router.predicates.covering.intervals import Intervals
from router.predicates.covering.normal import NormalFilter
from router.predicates.covering.thresholds import Bits
from router.predicates.covering.values import everything_with, includes

#: At most so many boxes are cut ...
BOXES_MAX = 128
#: ... and for each at most so many filters that hold its corner are looked at.
CANDIDATES_MAX = 16

_Box = dict[str, Intervals]


def covered_jointly(filter_: NormalFilter, index: FilterIndex, members: Bits) -> bool:
    """Whether members of the index are known to cover the filter together.

    Sound: a member with a suffix or substring counts only if all values that the filter allows have it.
    Exact for filters that ask intervals, if the search stays within `BOXES_MAX` and `CANDIDATES_MAX`.

    Args:
        members: those to consider; only such as constrain no attribute that the filter does not.
    """
    patterned: dict[NormalFilter, bool] = {}
    waiting: list[_Box] = [{name: values.intervals for name, values in filter_.attributes.items()}]
    for _ in range(BOXES_MAX):
        box = waiting.pop()
        best = _widest_at_corner(filter_, box, index, members, patterned)
        if best is None:
            return False
        waiting += _cut(box, best)
        if not waiting:
            return True
    return False


def _widest_at_corner(
    filter_: NormalFilter, box: _Box, index: FilterIndex, members: Bits, patterned: dict[NormalFilter, bool]
) -> NormalFilter | None:
    """Of the members that hold the lowest corner of the box, one that sticks out on fewest attributes."""
    for attribute in filter_.signature:
        known = index.attribute(attribute)
        if known is not None:
            members &= known.holding(box[attribute[0]][0][0]) | ~known.members
    best = None
    fewest = len(box) + 1
    # In canonical order: the answer must not depend on the order in which members came.
    for member in nsmallest(CANDIDATES_MAX, index.select(members), key=lambda one: one.key):
        if member not in patterned:
            patterned[member] = _has_patterns(member, filter_)
        if not patterned[member] or not _holds_corner(member, box):
            continue
        short = sum(
            not iv.includes(values.intervals, box[name]) for name, values in member.attributes.items()
        )
        if short < fewest:
            best, fewest = member, short
    return best


def _has_patterns(member: NormalFilter, filter_: NormalFilter) -> bool:
    """Whether all values that the filter allows have the suffixes and substrings that the member asks."""
    return all(
        values.is_plain or includes(everything_with(values), filter_.attributes[name])
        for name, values in member.attributes.items()
    )


def _holds_corner(member: NormalFilter, box: _Box) -> bool:
    return all(iv.holds(values.intervals, box[name][0][0]) for name, values in member.attributes.items())


def _cut(box: _Box, member: NormalFilter) -> list[_Box]:
    """What of the box the member does not hold, in disjoint boxes: at most one for each attribute."""
    rest: list[_Box] = []
    inner = dict(box)
    for name, values in member.attributes.items():
        outside = iv.difference(inner[name], values.intervals)
        if outside:
            rest.append({**inner, name: outside})
            inner[name] = iv.intersection(inner[name], values.intervals)
    return rest
