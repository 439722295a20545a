"""The pool of encoded filters of a process; see `router.predicates.covering.pool.FilterAlgebra`.

Each filter is stored once, under a number, with the filters that it covers and those that cover it. An index
from each bit of a suite to the filters that have the bit finds them, and the filters that a message matches,
by operations on sets of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import inf
from struct import Struct
from typing import cast

from router.predicates.covering.bitset import Bits, bits_of, lowest, numbers_in, remove_from
from router.predicates.covering.numbering import STEP_FILTERS, NumberedFilters
from router.predicates.encoded.budget import weight_of
from router.predicates.encoded.model import (
    ANY_SUITE,
    BloomFilter,
    BloomMessage,
    BloomPredicate,
    Suite,
    positions,
)
from router.predicates.model import Filter, Message, Predicate

#: The filters that a new filter is known to cover, and to be covered by, at most: each of them is changed.
_RELATED = 1_000
#: Filters of tables for which a question counts as one pair more.
_ANSWERED = 16_384
#: The head of a key of the canonical order: number of bits, and the suite.
_KEY = Struct(">HIHBB")


class _SuiteIndex:
    """The filters of one suite, by places of its own: its memory does not grow with the rest of the pool.

    Attributes:
        members: their numbers in the pool.
        having: bit -> the places of the filters that have it.
    """

    __slots__ = ("_free", "_numbers", "_places", "_used", "having", "members")

    def __init__(self, suite: Suite) -> None:
        self.members: Bits = 0
        self.having: list[Bits] = [0] * suite.bits
        #: Place -> number of its filter, number -> place; the places in use, and those to be used again.
        self._numbers: list[int] = []
        self._places: dict[int, int] = {}
        self._used: Bits = 0
        self._free: list[int] = []

    def add(self, filter_: BloomFilter, number: int) -> None:
        if self._free:
            place = self._free.pop()
            self._numbers[place] = number
        else:
            place = len(self._numbers)
            self._numbers.append(number)
        self._places[number] = place
        bit = 1 << place
        self.members |= 1 << number
        self._used |= bit
        for position in positions(filter_.bits):
            self.having[position] |= bit

    def supersets(self, bits: int) -> Bits:
        """The filters that have all of these bits."""
        found = self._used
        for position in positions(bits):
            found &= self.having[position]
        return self._at(found)

    def subsets(self, bits: int) -> Bits:
        """The filters that have no other bit than these."""
        other: Bits = 0
        for position, having in enumerate(self.having):
            if having and not bits >> position & 1:
                other |= having
        return self._at(self._used & ~other)

    def remove(self, gone: Bits) -> Iterator[None]:
        """Removes filters in steps, between which others may be added."""
        left = list(numbers_in(gone & self.members))
        for start in range(0, len(left), STEP_FILTERS):
            removed = left[start : start + STEP_FILTERS]
            places = [self._places.pop(number) for number in removed]
            self._free += places
            self.members &= ~bits_of(removed)
            kept = ~bits_of(places)
            self._used &= kept
            self.having = [having & kept for having in self.having]
            yield

    def _at(self, places: Bits) -> Bits:
        """The numbers of the filters at some places."""
        return bits_of([self._numbers[place] for place in numbers_in(places)])


class BloomPool(NumberedFilters[bytes]):
    """Encoded filters by number, and the relations between them.

    Of a filter that is in relation to very many others, the first `_RELATED` are known. What is not known is
    taken for not covered: predicates then have more filters than they need, and match what they should.
    """

    def __init__(self) -> None:
        super().__init__()
        self._suites: dict[Suite, _SuiteIndex] = {}
        #: Number -> the numbers of the filters that it covers, and of those that cover it; without itself.
        self._covered: dict[int, Bits] = {}
        self._covers: dict[int, Bits] = {}
        #: What questions may still count, and what one counts.
        self._left: float = inf
        self._question = 1

    def _key(self, filter_: Filter) -> bytes:
        encoded = _encoded(filter_)
        suite = encoded.suite
        head = _KEY.pack(encoded.bits.bit_count(), suite.key_id, suite.bits, suite.hashes, suite.encoding)
        return head + encoded.bits.to_bytes(suite.octets, "big")

    def _weight(self, filter_: Filter) -> int:
        return weight_of(_encoded(filter_))

    def _made(self, filters: Iterable[Filter]) -> Predicate:
        return BloomPredicate(cast(Iterable[BloomFilter], filters))

    def _add(self, filter_: Filter, number: int) -> None:
        encoded = _encoded(filter_)
        bit = 1 << number
        index = self._suites.get(encoded.suite)
        if index is None:
            index = self._suites[encoded.suite] = _SuiteIndex(encoded.suite)
        every = self._suites.get(ANY_SUITE)
        if encoded.suite == ANY_SUITE:
            covers, covered = 0, bits_of(list(self._filters)) & ~self._gone & ~bit
        else:
            covers, covered = index.subsets(encoded.bits), index.supersets(encoded.bits)
            if every is not None:
                covers |= every.members
        index.add(encoded, number)
        for own, others, related in (
            (self._covers, self._covered, lowest(covers, _RELATED)),
            (self._covered, self._covers, lowest(covered, _RELATED)),
        ):
            if related:
                own[number] = related
                for other in numbers_in(related):
                    others[other] = others.get(other, 0) | bit

    def _remove(self, gone: Bits) -> Iterator[None]:
        for suite in list(self._suites):
            index = self._suites[suite]
            yield from index.remove(gone)
            if not index.members:
                del self._suites[suite]
        for table in (self._covers, self._covered):
            for number in numbers_in(gone):
                table.pop(number, None)
            yield from remove_from(table, gone)

    # Questions.

    def add(self, members: Bits, numbers: Iterable[int], jointly: bool = True) -> Bits:  # noqa: ARG002
        """See `FilterAlgebra`; the result has minimal filters only, if `members` has, and few are added."""
        left = iter(numbers)
        for number in left:
            if self._left < 0:
                return members | 1 << number | bits_of(list(left))
            if not self.covers(members, number):
                members = members & ~self._covered.get(number, 0) | 1 << number
        return members

    def unite(self, members: Bits, others: Bits) -> Bits:
        """See `FilterAlgebra`."""
        return self.add(members, numbers_in(others & ~members))

    def covers(self, members: Bits, number: int, jointly: bool = True) -> bool:  # noqa: ARG002
        """See `FilterAlgebra`: a filter is implied by a predicate iff one of its filters covers it."""
        if self._left < 0:
            return bool(members >> number & 1)
        self._left -= self._question
        return bool(members & (self._covers.get(number, 0) | 1 << number))

    def bounded(self, pairs: int | None, filters: int = 0) -> AbstractContextManager[None]:
        """See `FilterAlgebra`: a question takes some operations on sets of numbers."""
        return self._bounded(inf if pairs is None else pairs, 1 + filters // _ANSWERED)

    @contextmanager
    def _bounded(self, left: float, question: int) -> Iterator[None]:
        before = self._left, self._question
        self._left, self._question = left, question
        try:
            yield
        finally:
            self._left, self._question = before

    def search(self, numbers: Sequence[int], start: int, weight: int) -> int:  # noqa: ARG002
        """Not needed: relations are found when a filter gets its number."""
        return len(numbers)

    def covers_all(self, members: Bits, others: Bits) -> bool:
        """See `FilterAlgebra`."""
        return all(self.covers(members, number) for number in numbers_in(others & ~members))

    def restricted(self, members: Bits, bound: Bits) -> Bits:
        """The filters of each of two sets that the other set covers, without those that others cover."""
        both = members & bound
        for some, covering in ((members, bound), (bound, members)):
            for number in numbers_in(some & ~covering):
                if self._left < 0:
                    break
                if self.covers(covering, number):
                    both |= 1 << number
        return self.add(0, numbers_in(both))

    def _matching(self, message: Message) -> Bits:
        assert isinstance(message, BloomMessage)
        index, every = self._suites.get(message.suite), self._suites.get(ANY_SUITE)
        found = 0 if index is None else index.subsets(message.bits)
        return found if every is None else found | every.members


def _encoded(filter_: Filter) -> BloomFilter:
    return cast(BloomFilter, filter_)
