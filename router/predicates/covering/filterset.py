"""A set of filters, kept by the numbers that they have in a pool."""

from __future__ import annotations

from collections.abc import Iterable

from router.predicates.covering.pool import POOL, FilterAlgebra
from router.predicates.covering.thresholds import Bits
from router.predicates.model import Predicate


class FilterSet:
    """Filters of which none is needless: none is covered by another, or by others on one attribute.

    Args:
        members: the filters, as numbers of `pool`.
        pool: which filters the numbers stand for, and what covers what.

    Attributes:
        members: the filters.
    """

    __slots__ = ("__weakref__", "_pool", "members")

    def __init__(self, members: Bits = 0, pool: FilterAlgebra = POOL) -> None:
        self.members = members
        self._pool = pool
        pool.register(self)

    @classmethod
    def of(cls, predicate: Predicate) -> FilterSet:
        """The filters of a predicate, without the needless ones."""
        found = cls()
        found.add_numbers(POOL.numbers(predicate))
        return found

    def __len__(self) -> int:
        return self.members.bit_count()

    def add_numbers(self, numbers: Iterable[int]) -> None:
        """Add filters, and simplify.

        Covering by several members on several attributes is not looked for: see `drop_covered_jointly`.
        """
        self.members = self._pool.add(self.members, numbers, jointly=False)

    def drop_covered_jointly(self) -> bool:
        """Take out members that others cover together, in canonical order; whether there were any."""
        before = self.members
        for number in POOL.in_order(before):
            rest = self.members & ~(1 << number)
            if POOL.covers(rest, number):
                self.members = rest
        return self.members != before
