"""A simplified disjunction of filters that grows one filter at a time."""

from __future__ import annotations

from collections.abc import Iterable

from router.predicates.model import Predicate
from router.predicates.pool import POOL
from router.predicates.thresholds import Bits, numbers_in


class FilterSet:
    """Filters of which none is needless: none is covered by another, or by others on one attribute.

    They are given, and kept, by the numbers that they have in the pool of this process.

    Attributes:
        members: the filters.
    """

    __slots__ = ("__weakref__", "members")

    def __init__(self, members: Bits = 0) -> None:
        self.members = members
        POOL.register(self)

    @classmethod
    def of(cls, predicate: Predicate) -> FilterSet:
        """The filters of a predicate, without the needless ones."""
        found = cls()
        found.add(POOL.numbers(predicate))
        return found

    def __len__(self) -> int:
        return self.members.bit_count()

    def copy(self) -> FilterSet:
        """An independent copy."""
        return FilterSet(self.members)

    def predicate(self) -> Predicate:
        """The disjunction, in canonical filters, in their fixed order."""
        return POOL.predicate(self.members)

    def covers(self, number: int) -> bool:
        """Whether the filters are known to match every message that a filter matches.

        Sound. Exact where one filter alone covers it, where several do that differ from it in what they ask
        of one attribute (if that is not about suffixes or substrings), and where several do together on any
        number of attributes by intervals, within the bound of `router.predicates.boxes`.
        """
        return POOL.covers(self.members, number)

    def covers_all(self, others: Bits) -> bool:
        """Whether every one of the filters is covered."""
        return all(POOL.covers(self.members, number) for number in numbers_in(others & ~self.members))

    def covered_by(self, other: FilterSet) -> Bits:
        """Those of the filters that another set covers."""
        found = self.members & other.members
        for number in numbers_in(self.members ^ found):
            if other.covers(number):
                found |= 1 << number
        return found

    def add(self, numbers: Iterable[int], jointly: bool = False) -> bool:
        """Add filters, and simplify; False if they were covered and nothing has changed.

        Args:
            jointly: whether filters go that several members cover on several attributes. Members do not go by
                themselves when they come to be covered so: see `drop_covered_jointly`.
        """
        before = self.members
        self.members = POOL.add(before, numbers, jointly)
        return self.members != before

    def drop_covered_jointly(self) -> bool:
        """Take out members that others cover together, in canonical order; whether there were any."""
        before = self.members
        for number in POOL.in_order(self.members):
            rest = self.members & ~(1 << number)
            if POOL.covers(rest, number):
                self.members = rest
        return self.members != before
