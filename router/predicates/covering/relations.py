"""The relations between one filter of the pool and the others.

Every relation of a filter f is a set of numbers of filters g:

=====================  ====================================================================================
`possible_covers`      superset of the g that can cover f, alone or together with others
`compared_covers`      those of `possible_covers` that were compared with f
`covers`               g was compared with f and covers it alone; contains f itself
`covers_except`        by attribute: g was compared with f and covers it but for values of this attribute
`low_corner`           g was compared with f and contains the lowest corner of f, taken as a box
`high_corner`          the highest corner, likewise
`possibly_covered`     the g that f can cover: f is in the `possible_covers` of g
`compared_covered`     those of `possibly_covered` that were compared with f
`covered`              g was compared with f, and f covers it
`covered_except_one`   g was compared with f, and f covers it but for values of one attribute
`mergeable`            by attribute: g differs from f in the intervals of this attribute only, and these
                       overlap or are adjacent
`related`              `possible_covers`, `possibly_covered`, all `mergeable`, and f itself
=====================  ====================================================================================

`possible_covers`, `possibly_covered` and `mergeable` are complete as far as the filters in `searched` are
concerned; if a question is about further filters, they are looked up in the index again. Each of them is a
property of the two filters alone, whichever was interned first. The other relations are computed when a
question needs them.

Several filters may cover a filter together, on any number of attributes (`covered_jointly`). A filter that
constrains d attributes by intervals is a box in d dimensions. Whether other boxes cover it together is
decided by removing them from it one by one: the lowest corner of the rest must be in some box; removing this
box leaves at most d smaller boxes. The problem is co-NP-complete in general (validity of a propositional
formula reduces to it), so the search is bounded; beyond the bound the answer is "not known to be covered".
"""

from __future__ import annotations

from heapq import nsmallest

from router.predicates.covering import intervals as iv
from router.predicates.covering.bitset import Bits, remove_from
from router.predicates.covering.index import FilterIndex
from router.predicates.covering.intervals import Intervals
from router.predicates.covering.normal import Attribute, NormalFilter
from router.predicates.covering.values import everything_with, includes

_SETS = (
    *("possible_covers", "compared_covers", "covers", "low_corner", "high_corner"),
    *("possibly_covered", "compared_covered", "covered", "covered_except_one", "related", "searched"),
)


class Relations:
    """The relations of one filter; the table in the module's docstring defines them.

    Attributes:
        number: of this filter.
        bit: the set of this filter alone.
        searched: the filters among which relations were looked up in the index.
        is_box: whether the filter constrains intervals only. If so, every set of filters that covers it
            has a member in `low_corner` and one in `high_corner`.
    """

    __slots__ = (*_SETS, "bit", "covers_except", "is_box", "mergeable", "number")

    possible_covers: Bits
    compared_covers: Bits
    covers: Bits
    low_corner: Bits
    high_corner: Bits
    possibly_covered: Bits
    compared_covered: Bits
    covered: Bits
    covered_except_one: Bits
    related: Bits
    searched: Bits

    def __init__(self, filter_: NormalFilter, bit: Bits) -> None:
        for name in _SETS:
            setattr(self, name, 0)
        self.number = bit.bit_length() - 1
        self.bit = self.covers = self.related = bit
        self.covers_except: dict[str, Bits] = {}
        self.is_box = all(values.is_plain for values in filter_.attributes.values())
        self.mergeable: dict[Attribute, Bits] = dict.fromkeys((name for name, _ in filter_.items()), 0)

    def remove(self, gone: Bits) -> None:
        """Removes filters from all sets but `searched`; most sets have none of them and stay as they are."""
        for name in _SETS[:-1]:
            bits = getattr(self, name)
            if bits & gone:
                setattr(self, name, bits & ~gone)
        remove_from(self.covers_except, gone)
        for attribute, bits in self.mergeable.items():
            if bits & gone:
                self.mergeable[attribute] = bits & ~gone


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
        sets = member.attributes.items()
        if not patterned[member] or not all(
            iv.contains(values.intervals, box[name][0][0]) for name, values in sets
        ):
            continue
        short = sum(not iv.includes(values.intervals, box[name]) for name, values in sets)
        if short < fewest:
            best, fewest = member, short
    return best, members.bit_count() <= CANDIDATES_MAX


def _has_patterns(member: NormalFilter, filter_: NormalFilter) -> bool:
    """Whether all values that the filter allows have the suffixes and substrings of the member."""
    return all(
        values.is_plain or includes(everything_with(values), filter_.attributes[name])
        for name, values in member.attributes.items()
    )


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
