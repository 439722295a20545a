"""A predicate that grows: what a routing table keeps for each interface."""

from __future__ import annotations

from collections.abc import Iterable

from router.predicates.filterset import FilterSet
from router.predicates.model import NOTHING, Message, Predicate
from router.predicates.pool import POOL


class PredicateBuilder:
    """p with p <- p ∨ q (protocol paper, section 3.3), at a cost that follows q and hardly p.

    `predicate` is an immutable view of what has been added up to now. It is simplified as it grows:
    filters covered by one other or by several on one attribute are dropped, filters that differ in
    one attribute are merged where that makes fewer filters.
    """

    __slots__ = ("_filters", "_view")

    def __init__(self, predicate: Predicate = NOTHING) -> None:
        self._filters = FilterSet()
        self._view: Predicate | None = None
        if predicate:
            self.add(predicate)

    def __len__(self) -> int:
        """The number of filters."""
        return len(self._filters)

    @property
    def predicate(self) -> Predicate:
        """All that was added; the same object until that changes."""
        if self._view is None:
            self._view = self._filters.predicate()
        return self._view

    def matches(self, message: Message) -> bool:
        """Whether the message matches what was added."""
        return bool(self._filters.members & POOL.matching(message))

    def same(self, other: PredicateBuilder) -> bool:
        """Whether both are the same predicate, written alike."""
        return self._filters.members == other._filters.members

    def covers(self, predicate: Predicate) -> bool:
        """Whether every message that `predicate` matches is known to match; True only if it is so."""
        return all(map(self._filters.covers, POOL.numbers(predicate)))

    def covers_all_of(self, other: PredicateBuilder) -> bool:
        """`covers`, of another that grows."""
        return self._filters.covers_all(other._filters.members)

    def add(self, predicate: Predicate) -> bool:
        """p <- p ∨ `predicate`; False if p covers it already, and nothing has changed."""
        return self._add(POOL.numbers(predicate))

    def within(self, other: PredicateBuilder) -> PredicateBuilder:
        """A predicate that both cover: the filters of each that the other covers."""
        p, q = self._filters, other._filters
        found = PredicateBuilder()
        found._add(POOL.in_order(p.covered_by(q) | q.covered_by(p)))
        return found

    def _add(self, numbers: Iterable[int]) -> bool:
        changed = self._filters.add(numbers, jointly=True)
        if changed:
            self._view = None
        return changed

    def copy(self) -> PredicateBuilder:
        """An independent copy."""
        other = PredicateBuilder()
        other._filters, other._view = self._filters.copy(), self._view
        return other
