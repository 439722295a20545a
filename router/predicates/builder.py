"""A predicate that grows: what a routing table keeps for each interface."""

from __future__ import annotations

from router.predicates.filterset import FilterSet
from router.predicates.model import NOTHING, Predicate
from router.predicates.normal import normalise


class PredicateBuilder:
    """p with p <- p ∨ q (protocol paper, section 3.3), at a cost that follows q and hardly p.

    `predicate` is an immutable view of what has been added up to now. It is simplified as it grows:
    filters covered by one other or by several on one attribute are dropped, filters that differ in
    one attribute are merged where that makes fewer filters.
    """

    def __init__(self, predicate: Predicate = NOTHING) -> None:
        self._filters = FilterSet()
        self._view: Predicate | None = None
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

    def covers(self, predicate: Predicate) -> bool:
        """Whether every message that `predicate` matches is known to match; True only if it is so."""
        normals = map(normalise, predicate)
        return all(normal is None or self._filters.covers(normal) for normal in normals)

    def add(self, predicate: Predicate) -> bool:
        """p <- p ∨ `predicate`; False if p covers it already, and nothing has changed."""
        changed = False
        normals = [normal for normal in map(normalise, predicate) if normal is not None]
        for normal in sorted(normals, key=lambda f: f.key):
            if not self._filters.covers(normal):
                self._filters.add_uncovered(normal)
                changed = True
        if changed:
            self._view = None
        return changed

    def copy(self) -> PredicateBuilder:
        """An independent copy."""
        other = PredicateBuilder()
        other._filters, other._view = self._filters.copy(), self._view
        return other
