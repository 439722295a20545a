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
"""

from __future__ import annotations

from router.predicates.covering.bitset import Bits, remove_from
from router.predicates.covering.normal import Attribute, NormalFilter

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
