"""A predicate that grows: the content of a routing table for one interface."""

from __future__ import annotations

from router.predicates.covering.bitset import Bits
from router.predicates.covering.pool import POOL, FilterAlgebra
from router.predicates.model import NOTHING, Message, Predicate


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
        """Returns the number of filters."""
        return self.members.bit_count()

    @property
    def predicate(self) -> Predicate:
        """The disjunction of what was added, in canonical form; the same object until it changes."""
        if self._view is None:
            self._view = self._pool.predicate(self.members)
        return self._view

    def matches(self, message: Message) -> bool:
        """Whether the message matches p."""
        return bool(self.members & self._pool.matching(message))

    def covers(self, predicate: Predicate) -> bool:
        """Whether every message that `predicate` matches is known to match p; see `algebra.covers`."""
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
        """Returns an independent copy."""
        other = PredicateBuilder(members=self.members, pool=self._pool)
        other._view = self._view
        return other
