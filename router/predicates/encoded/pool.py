"""The pool of encoded filters of a process; see `router.predicates.covering.pool.FilterAlgebra`.

Each filter is stored once, under a number, with the filters that it covers and those that cover it. An index
from each bit of a suite to the filters that have the bit finds them, and the filters that a message matches,
by operations on sets of numbers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import cast
from weakref import WeakSet

from router.predicates.covering.bitset import Bits, bits_of, numbers_in
from router.predicates.covering.pool import Holder
from router.predicates.encoded.algebra import order
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

#: The pool is searched for filters that no table holds when it has so many, or twice those that one did
#: before.
_SWEEP_AT = 4096
#: Messages whose matching filters are remembered: a message meets the tables of many routers of a simulation.
_REMEMBERED = 4096


class _SuiteIndex:
    """The filters of one suite, by places of its own: its memory does not grow with the rest of the pool.

    Attributes:
        members: their numbers in the pool.
        having: bit -> the places of the filters that have it.
    """

    __slots__ = ("_free", "_numbers", "_used", "having", "members")

    def __init__(self, suite: Suite) -> None:
        self.members: Bits = 0
        self.having: list[Bits] = [0] * suite.bits
        #: The number of the filter at each place, the places in use, and those that may be used again.
        self._numbers: list[int] = []
        self._used: Bits = 0
        self._free: list[int] = []

    def add(self, filter_: BloomFilter, number: int) -> None:
        if self._free:
            place = self._free.pop()
            self._numbers[place] = number
        else:
            place = len(self._numbers)
            self._numbers.append(number)
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

    def keep_only(self, members: Bits) -> None:
        self.members &= members
        gone = [place for place in numbers_in(self._used) if not members >> self._numbers[place] & 1]
        self._free += gone
        self._used &= ~bits_of(gone)
        self.having = [having & self._used for having in self.having]

    def _at(self, places: Bits) -> Bits:
        """The numbers of the filters at some places."""
        return bits_of([self._numbers[place] for place in numbers_in(places)])


class BloomPool:
    """Encoded filters by number, and the exact relations between them."""

    def __init__(self) -> None:
        self._numbers: dict[BloomFilter, int] = {}
        self._filters: dict[int, BloomFilter] = {}
        self._free: list[int] = []
        self._suites: dict[Suite, _SuiteIndex] = {}
        #: Number -> the numbers of the filters that it covers, and of those that cover it; without itself.
        self._covered: dict[int, Bits] = {}
        self._covers: dict[int, Bits] = {}
        self._members: Bits = 0
        self._holders: WeakSet[Holder] = WeakSet()
        self._sweep_at = _SWEEP_AT
        #: By identity of the message, which is kept with its answer and the state of the pool then.
        self._matched: OrderedDict[int, tuple[Message, int, Bits]] = OrderedDict()
        self._version = 0
        self.heaviest = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def register(self, holder: Holder) -> None:
        """See `FilterAlgebra`."""
        self._holders.add(holder)

    def numbers(self, predicate: Predicate) -> tuple[int, ...]:
        """See `FilterAlgebra`."""
        if len(self) >= self._sweep_at:
            self.sweep()
        return tuple(dict.fromkeys(map(self._number, cast(tuple[BloomFilter, ...], predicate.filters))))

    def _number(self, filter_: BloomFilter) -> int:
        found = self._numbers.get(filter_)
        return self._intern(filter_) if found is None else found

    def _intern(self, filter_: BloomFilter) -> int:
        number = self._free.pop() if self._free else len(self._filters)
        bit = 1 << number
        index = self._suites.get(filter_.suite)
        if index is None:
            index = self._suites[filter_.suite] = _SuiteIndex(filter_.suite)
        every = self._suites.get(ANY_SUITE)
        if filter_.suite == ANY_SUITE:
            covers, covered = 0, self._members
        else:
            covers, covered = index.subsets(filter_.bits), index.supersets(filter_.bits)
            if every is not None:
                covers |= every.members
        index.add(filter_, number)
        self._numbers[filter_] = number
        self._filters[number] = filter_
        self._covers[number], self._covered[number] = covers, covered
        for other in numbers_in(covers):
            self._covered[other] |= bit
        for other in numbers_in(covered):
            self._covers[other] |= bit
        self._members |= bit
        self.heaviest = max(self.heaviest, weight_of(filter_))
        self._version += 1
        return number

    def add(self, members: Bits, numbers: Iterable[int], jointly: bool = True) -> Bits:  # noqa: ARG002
        """See `FilterAlgebra`; the result has minimal filters only, if `members` has."""
        for number in numbers:
            if not self.covers(members, number):
                members = members & ~self._covered[number] | 1 << number
        return members

    def unite(self, members: Bits, others: Bits) -> Bits:
        """See `FilterAlgebra`."""
        return self.add(members, numbers_in(others & ~members))

    def covers(self, members: Bits, number: int, jointly: bool = True) -> bool:  # noqa: ARG002
        """See `FilterAlgebra`: a filter is implied by a predicate iff one of its filters covers it."""
        return bool(members & (self._covers[number] | 1 << number))

    def bounded(self, pairs: int | None, filters: int = 0) -> AbstractContextManager[None]:  # noqa: ARG002
        """Not needed: an answer takes a few operations on sets of numbers."""
        return nullcontext()

    def assume(self, predicate: Predicate, numbers: Iterable[int], members: Bits) -> None:
        """Not needed: a look-up takes less time than storing the answer."""

    def search(self, numbers: Sequence[int], start: int, weight: int) -> int:  # noqa: ARG002
        """Not needed: relations are found when a filter is interned."""
        return len(numbers)

    def covers_all(self, members: Bits, others: Bits) -> bool:
        """See `FilterAlgebra`."""
        return all(self.covers(members, number) for number in numbers_in(others & ~members))

    def restricted(self, members: Bits, bound: Bits) -> Bits:
        """The filters of each of two sets that the other set covers, without those that others cover."""
        both = members & bound
        for some, covering in ((members, bound), (bound, members)):
            for number in numbers_in(some & ~covering):
                if self.covers(covering, number):
                    both |= 1 << number
        return self.add(0, numbers_in(both))

    def predicate(self, members: Bits) -> Predicate:
        """See `FilterAlgebra`."""
        return BloomPredicate(sorted((self._filters[each] for each in numbers_in(members)), key=order))

    def predicate_in_steps(self, members: Bits) -> Generator[None, None, Predicate]:
        """See `FilterAlgebra`: in one step."""
        yield from ()
        return self.predicate(members)

    def filters(self, numbers: Iterable[int]) -> list[Filter]:
        """See `FilterAlgebra`."""
        return cast(list[Filter], [self._filters[number] for number in numbers])

    def matching(self, message: Message) -> Bits:
        """See `FilterAlgebra`."""
        entry = self._matched.get(id(message))
        if entry is not None and entry[0] is message and entry[1] == self._version:
            return entry[2]
        assert isinstance(message, BloomMessage)
        index, every = self._suites.get(message.suite), self._suites.get(ANY_SUITE)
        found = 0 if index is None else index.subsets(message.bits)
        if every is not None:
            found |= every.members
        self._matched[id(message)] = message, self._version, found
        if len(self._matched) > _REMEMBERED:
            self._matched.popitem(last=False)
        return found

    def sweep(self) -> None:
        """Forgets the filters that no holder has.

        Their numbers are given again.
        """
        live: Bits = 0
        for holder in self._holders:
            live |= holder.members
        self._members &= live
        self._filters = {number: self._filters[number] for number in numbers_in(self._members)}
        self._numbers = {filter_: number for number, filter_ in self._filters.items()}
        self._covers = {number: self._covers[number] & live for number in self._filters}
        self._covered = {number: self._covered[number] & live for number in self._filters}
        for index in self._suites.values():
            index.keep_only(live)
        self._suites = {suite: index for suite, index in self._suites.items() if index.members}
        self._free = [number for number in range(live.bit_length()) if number not in self._filters]
        self._matched.clear()
        self._version += 1
        self._sweep_at = max(_SWEEP_AT, 2 * len(self))
