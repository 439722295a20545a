"""A predicate that grows: what a routing table keeps for each interface."""

from __future__ import annotations

from router.predicates.covering.filterset import FilterSet
from router.predicates.covering.pool import POOL, FilterAlgebra
from router.predicates.covering.thresholds import Bits
from router.predicates.model import NOTHING, Message, Predicate


class PredicateBuilder(FilterSet):
    """p with p <- p ∨ q (protocol paper, section 3.3), at a cost that follows q and hardly p.

    `predicate` is an immutable view of what has been added up to now. With `POOL` it is simplified as it
    grows: filters covered by one other or by several on one attribute are dropped, filters that differ in
    one attribute are merged where that makes fewer filters.
    """

    __slots__ = ("_view",)

    def __init__(self, predicate: Predicate = NOTHING, members: Bits = 0, pool: FilterAlgebra = POOL) -> None:
        super().__init__(members, pool)
        self._view: Predicate | None = None
        if predicate:
            self.add(predicate)

    @property
    def predicate(self) -> Predicate:
        """All that was added; the same object until that changes."""
        if self._view is None:
            self._view = self._pool.predicate(self.members)
        return self._view

    def matches(self, message: Message) -> bool:
        """Whether the message matches what was added."""
        return bool(self.members & self._pool.matching(message))

    def covers(self, predicate: Predicate) -> bool:
        """Whether every message that `predicate` matches is known to match; True only if it is so.

        Exact where one filter alone covers one of the predicate's, where several do that differ from it in
        what they ask of one attribute (if that is not about suffixes or substrings), and where several do
        together on any number of attributes by intervals, within the bound of
        `router.predicates.covering.boxes`.
        """
        return all(self._pool.covers(self.members, number) for number in self._pool.numbers(predicate))

    def add(self, predicate: Predicate) -> bool:
        """p <- p ∨ `predicate`; False if p covers it already, and nothing has changed."""
        before = self.members
        self.members = after = self._pool.add(before, self._pool.numbers(predicate))
        if after == before:
            return False
        self._view = None
        return True

    def copy(self) -> PredicateBuilder:
        """An independent copy."""
        other = PredicateBuilder(members=self.members, pool=self._pool)
        other._view = self._view
        return other
