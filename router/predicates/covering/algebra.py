"""Covering, union and simplification of predicates.

Source: protocol paper, sections 3.1 (p covers q if p matches every message that q matches) and 3.5.6
(simplification). Covering is never claimed where it does not hold. The answer is exact

- between constraints and between filters (conjunctions), for every type and operator;
- for a filter against a predicate, if one filter of the predicate covers it, or if several do that differ
  from it in one attribute only, by intervals (comparisons, equality, prefix);
- for a filter against several filters that cover it together on any number of attributes, by intervals, if
  the search stays within its bound (`router.predicates.covering.relations`).

The answer is "no" for covering beyond that bound, for covering by several filters that divide the values by
suffixes or substrings, and for some very long strings (`router.predicates.covering.values`).

Results are canonical. A filter is written with the fewest constraints of one fixed form (``x >= 200`` and not
the equivalent ``x > 199``; the strict bound if neither number is rounder), in order of names; filters are
sorted. Two simplified predicates that consist of the same filters are therefore equal.
"""

from __future__ import annotations

from router.predicates import NOTHING, Message, Predicate
from router.predicates.covering.bitset import Bits
from router.predicates.covering.numbering import FilterAlgebra
from router.predicates.covering.pool import POOL


class PredicateBuilder:
    """p with p <- p ∨ q (protocol paper, section 3.3), in time that grows with q and hardly with p.

    With `POOL`, p is simplified as it grows: filters that are covered by another filter, or by several on one
    attribute, are removed; filters that differ in one attribute are merged if this reduces their number.

    Args:
        predicate: the first predicate to add.
        members: a simplified set of filters to start with.
        pool: which filters the numbers stand for, and how sets of them are united.

    Attributes:
        members: the filters, as numbers of the pool.
    """

    __slots__ = ("__weakref__", "_pool", "_view", "members")

    def __init__(self, predicate: Predicate = NOTHING, members: Bits = 0, pool: FilterAlgebra = POOL) -> None:
        self.members = members
        self._view: Predicate | None = None
        self._pool = pool
        pool.register(self)
        if predicate:
            self.add(predicate)

    def __len__(self) -> int:
        return self.members.bit_count()

    @property
    def predicate(self) -> Predicate:
        """The disjunction of what was added, in canonical form; the same object until it changes."""
        if self._view is None:
            self._view = self._pool.predicate(self.members)
        return self._view

    def matches(self, message: Message) -> bool:
        return bool(self.members & self._pool.matching(message))

    def covers(self, predicate: Predicate) -> bool:
        """Whether every message that `predicate` matches is known to match p."""
        return all(self._pool.covers(self.members, number) for number in self._pool.numbers(predicate))

    def add(self, predicate: Predicate) -> bool:
        """p <- p ∨ `predicate`; returns False if p covers it already and is unchanged."""
        before = self.members
        self.members = after = self._pool.add(before, self._pool.numbers(predicate))
        if after == before:
            return False
        self._view = None
        return True

    def unite(self, other: PredicateBuilder) -> bool:
        """p <- p ∨ the other; returns False if p covers it already and is unchanged."""
        before = self.members
        if not before:
            self.members, self._view = other.members, other._view
            return bool(self.members)
        self.members = after = self._pool.unite(before, other.members)
        if after == before:
            return False
        self._view = None
        return True

    def copy(self) -> PredicateBuilder:
        other = PredicateBuilder(members=self.members, pool=self._pool)
        other._view = self._view
        return other


def simplify(p: Predicate) -> Predicate:
    """Returns the canonical form of a predicate, which matches the same messages.

    In addition to what a `PredicateBuilder` does, filters that several others cover together are removed, as
    far as the pool can tell. The result of simplifying a simplified predicate is equal to it.
    """
    members = POOL.simplified(p)
    while True:
        # Which filters can be merged may depend on their order: start from the canonical one. A round that
        # changes the set leaves fewer filters, so there is a last round.
        added = POOL.add(0, POOL.in_order(members), jointly=False)
        simple = added
        for number in POOL.in_order(added):
            rest = simple & ~(1 << number)
            if POOL.covers(rest, number):
                simple = rest
        if simple == members:
            break
        members = simple
    predicate = POOL.predicate(members)
    return p if predicate == p else predicate
