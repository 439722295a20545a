"""The pool of encoded filters of a process; see `router.predicates.covering.numbering.FilterAlgebra`.

Each filter is stored once, under a number. An index from each bit of a suite to the filters that have the bit
finds those that a filter covers, those that cover it, and those that a message matches, by operations on sets
of numbers. Answers depend on the filters alone, and not on what the pool has met
before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_
from struct import Struct
from typing import cast

from router.predicates import Filter, Message, Predicate
from router.predicates.covering.bitset import Bits, bits_of, numbers_in
from router.predicates.covering.numbering import NumberedFilters, store
from router.predicates.encoded import ANY_FILTER, ANY_SUITE, BloomFilter, BloomMessage, BloomPredicate, Suite

#: The head of a key of the canonical order: number of bits, and the suite.
_KEY = Struct(">HIHBB")


class _SuiteIndex:
    """The filters of one suite, by places of its own: its memory does not grow with the rest of the pool.

    Attributes:
        members: their numbers in the pool.
    """

    __slots__ = ("_at", "_bits", "_free", "_having", "_numbers", "_places", "_used", "members")

    def __init__(self, suite: Suite) -> None:
        self.members: Bits = 0
        #: Bit -> the places that have it, of filters that were removed too.
        self._having: list[Bits] = [0] * suite.bits
        self._bits = suite.bits
        #: Number and bits of the filter at each place; number -> place.
        self._numbers: list[int] = []
        self._at: list[int] = []
        self._places: dict[int, int] = {}
        #: The places in use, and those that may be used again.
        self._used: Bits = 0
        self._free: list[int] = []

    def add(self, bits: int, number: int) -> None:
        if self._free:
            place = self._free.pop()
            changed, self._numbers[place], self._at[place] = self._at[place] ^ bits, number, bits
        else:
            place, changed = len(self._numbers), bits
            self._numbers.append(number)
            self._at.append(bits)
        self._places[number] = place
        bit = 1 << place
        self.members |= 1 << number
        self._used |= bit
        for position in numbers_in(changed):
            self._having[position] ^= bit

    def remove(self, number: int) -> None:
        place = self._places.pop(number)
        self.members ^= 1 << number
        self._used ^= 1 << place
        self._free.append(place)

    def supersets(self, bits: int) -> Bits:
        """The filters that have all of these bits."""
        found = self._used
        for position in numbers_in(bits):
            found &= self._having[position]
            if not found:
                return 0
        return self._numbers_at(found)

    def subsets(self, bits: int) -> Bits:
        """The filters that have no other bit than these."""
        flags = reversed(f"{bits:0{self._bits}b}")
        other = reduce(
            or_, [having for having, flag in zip(self._having, flags, strict=True) if flag == "0"], 0
        )
        return self._numbers_at(self._used & ~other)

    def _numbers_at(self, places: Bits) -> Bits:
        return bits_of([self._numbers[place] for place in numbers_in(places)])


class BloomPool(NumberedFilters):
    """Encoded filters by number, and the exact algebra of sets of them.

    Sets of filters that `add` and `unite` have made have no filter that another one covers.
    """

    def __init__(self) -> None:
        super().__init__()
        self._suites: dict[Suite, _SuiteIndex] = {}
        #: Number -> the filters of the pool when it was looked up; those of them that cover it, or that it
        #: covers.
        self._covering: OrderedDict[int, tuple[Bits, Bits]] = OrderedDict()
        self._covered: OrderedDict[int, tuple[Bits, Bits]] = OrderedDict()
        #: The set of `ANY_FILTER`, which is in no index; empty: the pool lacks it.
        self._any: Bits = 0

    def _key(self, filter_: Filter) -> bytes:
        encoded = _encoded(filter_)
        suite = encoded.suite
        head = _KEY.pack(encoded.bits.bit_count(), suite.key_id, suite.bits, suite.hashes, suite.encoding)
        return head + encoded.bits.to_bytes(suite.octets, "big")

    def _made(self, filters: Iterable[Filter]) -> Predicate:
        return BloomPredicate(cast(Iterable[BloomFilter], filters))

    def _added(self, filter_: Filter, number: int) -> None:
        encoded = _encoded(filter_)
        if encoded == ANY_FILTER:
            self._any = 1 << number
            return
        index = self._suites.get(encoded.suite)
        if index is None:
            index = self._suites[encoded.suite] = _SuiteIndex(encoded.suite)
        index.add(encoded.bits, number)

    def sweep(self) -> None:
        self._covering.clear()
        self._covered.clear()
        super().sweep()

    def _removed(self, filter_: Filter, number: int) -> None:
        suite = _encoded(filter_).suite
        if suite == ANY_SUITE:
            self._any = 0
            return
        index = self._suites[suite]
        index.remove(number)
        if not index.members:
            del self._suites[suite]

    # Questions.

    def add(self, members: Bits, numbers: Iterable[int]) -> Bits:
        given = tuple(numbers)
        every = self._any
        if members & every:
            return members
        if every and every.bit_length() - 1 in given:
            return every
        for number in given:
            if not self.covers(members, number):
                members = members & ~self._covered_members(number, members) | 1 << number
        return members

    def unite(self, members: Bits, others: Bits) -> Bits:
        if others & self._any:
            return members if members & self._any else self._any
        return super().unite(members, others)

    def covers(self, members: Bits, number: int) -> bool:
        """A filter is implied by a predicate iff one of its filters covers it."""
        if members & (self._any | 1 << number):
            return True
        index, near = self._near(number, members)
        if index is None:
            return False
        return bool(near & self._related(self._covering, number, near, index.subsets))

    def covers_all(self, members: Bits, others: Bits) -> bool:
        return bool(members & self._any) or super().covers_all(members, others)

    def restricted(self, members: Bits, bound: Bits) -> Bits:
        for some, covering in ((members, bound), (bound, members)):
            if covering & self._any:
                return some
        return super().restricted(members, bound)

    # How answers are computed.

    def _near(self, number: int, members: Bits) -> tuple[_SuiteIndex | None, Bits]:
        """The index of the suite of a filter, and the members that have the suite; None: no member has."""
        index = self._suites.get(_encoded(self._filters[number]).suite)
        near = 0 if index is None else members & index.members
        return (index, near) if near else (None, 0)

    def _covered_members(self, number: int, members: Bits) -> Bits:
        """The members that a filter other than `ANY_FILTER` is known to cover."""
        index, near = self._near(number, members)
        if index is None:
            return 0
        return near & self._related(self._covered, number, near, index.supersets)

    def _related(
        self, known: OrderedDict[int, tuple[Bits, Bits]], number: int, near: Bits, find: Callable[[int], Bits]
    ) -> Bits:
        """Those of the filters `near` that are in a relation to a filter, and perhaps others."""
        entry = known.get(number)
        if entry is not None and not near & ~entry[0]:
            return entry[1]
        filter_ = _encoded(self._filters[number])
        searched = self._suites[filter_.suite].members
        found = find(filter_.bits)
        store(known, number, (searched, found))
        return found

    def _matching(self, message: Message) -> Bits:
        assert isinstance(message, BloomMessage)
        index = self._suites.get(message.suite)
        return self._any if index is None else self._any | index.subsets(message.bits)


def _encoded(filter_: Filter) -> BloomFilter:
    return cast(BloomFilter, filter_)
