"""Covering by several filters together, on any number of attributes.

A filter that constrains d attributes by intervals is a box in d dimensions. Whether other boxes cover it
together is decided by removing them from it one by one: the lowest corner of the rest must be in some box;
removing this box leaves at most d smaller boxes. The problem is co-NP-complete in general (validity of a
propositional formula reduces to it), so the search is bounded; beyond the bound the answer is "not known to
be covered".
"""

from __future__ import annotations

from heapq import nsmallest

from router.predicates.covering import intervals as iv
from router.predicates.covering.bitset import Bits
from router.predicates.covering.index import FilterIndex
from router.predicates.covering.intervals import Intervals
from router.predicates.covering.normal import NormalFilter
from router.predicates.covering.values import everything_with, includes

#: The search removes at most this many boxes ...
BOXES_MAX = 128
#: ... and chooses each among at most this many filters that contain the corner.
CANDIDATES_MAX = 16

_Box = dict[str, Intervals]


def covered_jointly(filter_: NormalFilter, index: FilterIndex, members: Bits) -> bool | None:
    """Whether members of the index are known to cover the filter together; None: the search was cut off.

    A member with a suffix or substring is considered only if all values that the filter allows have it, so
    True is always right. The answer is exact for filters that constrain intervals only, if the search stays
    within `BOXES_MAX` and `CANDIDATES_MAX`.

    Args:
        members: the members to consider; each constrains only attributes that the filter constrains too.
    """
    patterned: dict[NormalFilter, bool] = {}
    waiting: list[_Box] = [{name: values.intervals for name, values in filter_.attributes.items()}]
    for _ in range(BOXES_MAX):
        box = waiting.pop()
        best, all_seen = _widest_at_corner(filter_, box, index, members, patterned)
        if best is None:
            return False if all_seen else None
        waiting += _cut(box, best)
        if not waiting:
            return True
    return None


def _widest_at_corner(
    filter_: NormalFilter, box: _Box, index: FilterIndex, members: Bits, patterned: dict[NormalFilter, bool]
) -> tuple[NormalFilter | None, bool]:
    """The member that contains the lowest corner of the box and falls short on the fewest attributes.

    Returns:
        The member, and whether all were considered that may contain the corner.
    """
    for attribute in filter_.signature:
        known = index.attribute(attribute)
        if known is not None:
            members &= known.containing(box[attribute[0]][0][0]) | ~known.members
    best = None
    fewest = len(box) + 1
    # In canonical order, so that the answer does not depend on the order in which members were added.
    for member in nsmallest(CANDIDATES_MAX, index.select(members), key=lambda member: member.key):
        if member not in patterned:
            patterned[member] = _has_patterns(member, filter_)
        if not patterned[member] or not _contains_corner(member, box):
            continue
        short = sum(
            not iv.includes(values.intervals, box[name]) for name, values in member.attributes.items()
        )
        if short < fewest:
            best, fewest = member, short
    return best, members.bit_count() <= CANDIDATES_MAX


def _has_patterns(member: NormalFilter, filter_: NormalFilter) -> bool:
    """Whether all values that the filter allows have the suffixes and substrings of the member."""
    return all(
        values.is_plain or includes(everything_with(values), filter_.attributes[name])
        for name, values in member.attributes.items()
    )


def _contains_corner(member: NormalFilter, box: _Box) -> bool:
    return all(iv.contains(values.intervals, box[name][0][0]) for name, values in member.attributes.items())


def _cut(box: _Box, member: NormalFilter) -> list[_Box]:
    """The part of the box that the member does not contain, as disjoint boxes."""
    rest: list[_Box] = []
    inner = dict(box)
    for name, values in member.attributes.items():
        outside = iv.difference(inner[name], values.intervals)
        if outside:
            rest.append({**inner, name: outside})
            inner[name] = iv.intersection(inner[name], values.intervals)
    return rest
