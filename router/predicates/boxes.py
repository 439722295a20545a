"""Covering by several filters together, on any number of attributes.

A filter that asks intervals of d attributes is a box in d dimensions. Whether other boxes cover it together
is decided by taking them away from it piece by piece: the lowest corner of what is left must be in some
box; that box is cut out, which leaves at most d smaller boxes. The question is hard in general (it is that
of validity of a propositional formula), so the search is bounded; beyond the bound the answer is "not
known to be covered".
"""

from __future__ import annotations

from router.predicates import intervals as iv
from router.predicates.index import FilterIndex
from router.predicates.intervals import Intervals
from router.predicates.normal import NormalFilter
from router.predicates.thresholds import Bits
from router.predicates.values import everything_with, includes

#: At most so many boxes are cut ...
BOXES_MAX = 128
#: ... and for each at most so many filters that hold its corner are looked at.
CANDIDATES_MAX = 16

_Box = dict[str, Intervals]


def covered_jointly(filter_: NormalFilter, index: FilterIndex, hidden: Bits = 0) -> bool:
    """Whether members of the index, without the `hidden` ones, are known to cover the filter together.

    Sound: a member with a suffix or substring counts only if all values that the filter allows have it.
    Exact for filters that ask intervals, if the search stays within `BOXES_MAX` and `CANDIDATES_MAX`.
    """
    usable = index.inside(filter_) & ~hidden
    for attribute, values in filter_.items():
        known = index.attribute(attribute)
        if known is not None:
            usable &= known.meeting(values) | ~known.members
    helpful: dict[NormalFilter, bool] = {}
    waiting: list[_Box] = [{name: values.intervals for name, values in filter_.attributes.items()}]
    for _ in range(BOXES_MAX):
        box = waiting.pop()
        best = _widest_at_corner(filter_, box, index, usable, helpful)
        if best is None:
            return False
        waiting += _cut(box, best)
        if not waiting:
            return True
    return False


def _widest_at_corner(
    filter_: NormalFilter, box: _Box, index: FilterIndex, usable: Bits, helpful: dict[NormalFilter, bool]
) -> NormalFilter | None:
    """Of the members that hold the lowest corner of the box, one that sticks out on fewest attributes."""
    for attribute in filter_.signature:
        known = index.attribute(attribute)
        if known is not None:
            usable &= known.holding(box[attribute[0]][0][0]) | ~known.members
    best = None
    fewest = len(box) + 1
    for number, member in enumerate(index.select(usable)):
        if number == CANDIDATES_MAX:
            break
        if member not in helpful:
            helpful[member] = _has_patterns(member, filter_)
        if not helpful[member] or not _holds_corner(member, box):
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
    for name, values in member.attributes.items():
        corner = box[name][0][0]
        if not any(low <= corner < high for low, high in values.intervals):
            return False
    return True


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
