"""A simplified disjunction of filters that grows one filter at a time."""

from __future__ import annotations

from collections.abc import Iterable

from router.predicates.model import Message, Predicate
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
        found.add_all(POOL.numbers(predicate))
        return found

    def __len__(self) -> int:
        return self.members.bit_count()

    def copy(self) -> FilterSet:
        """An independent copy."""
        return FilterSet(self.members)

    def predicate(self) -> Predicate:
        """The disjunction, in canonical filters, in their fixed order."""
        return POOL.predicate(self.members)

    def matches(self, message: Message) -> bool:
        """Whether the message matches one of the filters."""
        return bool(self.members & POOL.matching(message))

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

    def add_all(self, numbers: Iterable[int]) -> None:
        """Add filters, and simplify.

        Covering by several members on several attributes is not looked for: see `drop_covered_jointly`.
        """
        for number in numbers:
            if not POOL.covers(self.members, number, jointly=False):
                self.add_uncovered(number)

    def add_uncovered(self, number: int) -> None:
        """Add a filter that is known not to be covered (`covers`), and simplify."""
        waiting = [number]
        while waiting:
            new = waiting.pop()
            if new != number and POOL.covers(self.members, new, jointly=False):
                continue
            merging, instead = POOL.merged(new, self.members)
            if merging:
                self.members ^= merging
                waiting += instead
            else:
                self._drop_covered(new)
                self.members |= 1 << new

    def drop_covered_jointly(self) -> bool:
        """Take out members that others cover together, in canonical order; whether there were any."""
        before = self.members
        for number in POOL.in_order(self.members):
            rest = self.members & ~(1 << number)
            if POOL.covers(rest, number):
                self.members = rest
        return self.members != before

    def _drop_covered(self, new: int) -> None:
        """Take out what `new`, which is about to come in, makes needless."""
        needless, doubtful = POOL.below(new, self.members)
        self.members &= ~needless
        if doubtful:
            bit = 1 << new
            for number in POOL.in_order(doubtful):
                rest = self.members & ~(1 << number)
                if POOL.covers(rest | bit, number, jointly=False):
                    self.members = rest
