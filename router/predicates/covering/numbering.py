"""Filters under numbers, equal filters under one number, and the algebra of sets of numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar
from weakref import WeakSet, ref

from router.predicates import Filter, Message, Predicate
from router.predicates.covering.bitset import Bits, bits_of, numbers_in

K = TypeVar("K")
V = TypeVar("V")

#: A pool is searched for filters that no table holds when it has so many, or twice those that tables held
#: when it was searched last.
SWEEP_AT = 4096
#: Entries of a cache. A message meets the tables of many routers of a simulation.
_CACHE_SIZE = 4096


def store(cache: OrderedDict[K, V], key: K, value: V) -> None:
    """Adds an entry to a cache, from which the oldest entry goes if the cache is full."""
    cache[key] = value
    if len(cache) > _CACHE_SIZE:
        cache.popitem(last=False)


class Holder(Protocol):
    """An object that stores numbers of a pool."""

    @property
    def members(self) -> Bits: ...


class FilterAlgebra(ABC):
    """Filters by number, and the algebra of sets of them.

    A number is valid as long as a registered holder has it. `router.predicates.covering.pool.FilterPool`
    knows covering and simplification; `router.content.VerbatimPool` compares filters literally.

    Args:
        filters: the filter of each number; the subclass changes it.
        keys: the place of the filter of each number in the canonical order; likewise.
    """

    def __init__(
        self, filters: Mapping[int, Filter] | Sequence[Filter], keys: Mapping[int, bytes] | Sequence[bytes]
    ) -> None:
        self._filters, self._keys = filters, keys
        self._holders: WeakSet[Holder] = WeakSet()
        #: Another object once numbers stand for other filters.
        self._numbering = object()
        #: By identity of a message: the message, which may be gone, the version of the pool, and the answer.
        self._matched: OrderedDict[int, tuple[ref[Message], int, Bits]] = OrderedDict()
        #: Changes whenever a filter is added or removed.
        self._version = 0

    @abstractmethod
    def __len__(self) -> int:
        """Returns the number of filters."""

    @abstractmethod
    def numbers(self, predicate: Predicate) -> tuple[int, ...]:
        """Returns the numbers of the filters of a predicate."""

    @abstractmethod
    def add(self, members: Bits, numbers: Iterable[int]) -> Bits:
        """Returns the union of a set and further filters; the set itself if it covers all of them."""

    @abstractmethod
    def covers(self, members: Bits, number: int) -> bool:
        """Whether every message that matches the filter is known to match the set."""

    @abstractmethod
    def _matching(self, message: Message) -> Bits:
        """Returns all filters of the pool that match the message."""

    def _made(self, filters: Iterable[Filter]) -> Predicate:
        """Returns the disjunction of filters."""
        return Predicate(tuple(filters))

    def register(self, holder: Holder) -> None:
        """Keeps the filters in `holder.members`, as long as the holder exists."""
        self._holders.add(holder)

    def in_order(self, members: Bits) -> list[int]:
        """Returns the numbers of a set in the canonical order of the filters."""
        return sorted(numbers_in(members), key=self._keys.__getitem__)

    def unite(self, members: Bits, others: Bits) -> Bits:
        """Returns the union of two sets; the first itself if it covers the second."""
        return self.add(members, self.in_order(others & ~members))

    def covers_all(self, members: Bits, others: Bits) -> bool:
        """Whether the set is known to cover each filter of another set."""
        return all(self.covers(members, number) for number in self.in_order(others & ~members))

    def restricted(self, members: Bits, bound: Bits) -> Bits:
        """Returns the filters of each of two sets that the other set covers, united.

        Both sets cover the result, which may match less than their intersection.
        """
        both = members & bound
        for covered, covering in ((members, bound), (bound, members)):
            asked = numbers_in(covered & ~covering)
            both |= bits_of([number for number in asked if self.covers(covering, number)])
        return self.unite(0, both)

    def predicate(self, members: Bits) -> Predicate:
        """Returns the disjunction of the filters, in an order that depends on the filters alone."""
        ordered = self.in_order(members)
        found = self._made(self.filters(ordered))
        object.__setattr__(found, "numbered", (self._numbering, tuple(ordered), members))
        return found

    def filters(self, numbers: Iterable[int]) -> list[Filter]:
        """Returns the filters with these numbers, in their order.

        While a holder has a number, every call returns the same object for it.
        """
        return list(map(self._filters.__getitem__, numbers))

    def matching(self, message: Message) -> Bits:
        """Returns all filters of the pool that match the message."""
        entry = self._matched.get(id(message))
        if entry is not None and entry[0]() is message and entry[1] == self._version:
            return entry[2]
        found = self._matching(message)
        store(self._matched, id(message), (ref(message), self._version, found))
        return found

    def _held(self) -> Bits:
        live: Bits = 0
        for holder in self._holders:
            live |= holder.members
        return live

    def _renumber(self) -> None:
        """Marks that numbers stand for other filters than before."""
        self._numbering = object()
        self._matched.clear()
        self._version += 1


class NumberedFilters(FilterAlgebra):
    """A pool that compares filters as they are; filters that no holder has are removed as others come.

    With H the greatest number of filters that the holders have had, and P the filters of the largest
    predicate, the pool never has more than max(`SWEEP_AT`, 2 H) + P filters, whatever comes and goes.
    """

    _filters: dict[int, Filter]
    _keys: dict[int, bytes]

    def __init__(self) -> None:
        super().__init__({}, {})
        self._numbers: dict[Filter, int] = {}
        #: Numbers that were given and may be given again.
        self._free: list[int] = []
        self._sweep_at = SWEEP_AT

    @abstractmethod
    def _key(self, filter_: Filter) -> bytes:
        """The place of a filter in the canonical order; no other filter has it."""

    def _added(self, filter_: Filter, number: int) -> None:
        """A filter has got a number."""

    def _removed(self, filter_: Filter, number: int) -> None:
        """A filter has lost its number."""

    # Numbers.

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, predicate: Predicate) -> tuple[int, ...]:
        known = predicate.numbered
        if known is not None and known[0] is self._numbering:
            return known[1]
        if len(self) >= self._sweep_at:
            self.sweep()
        return tuple(dict.fromkeys(map(self._number, predicate.filters)))

    def _number(self, filter_: Filter) -> int:
        found = self._numbers.get(filter_)
        if found is None:
            found = self._free.pop() if self._free else len(self._numbers)
            self._numbers[filter_] = found
            self._filters[found] = filter_
            self._keys[found] = self._key(filter_)
            self._added(filter_, found)
            self._version += 1
        return found

    # Removal.

    def sweep(self) -> None:
        """Forgets the filters that no holder has.

        Their numbers are given again.
        """
        gone = bits_of(tuple(self._filters)) & ~self._held()
        self._renumber()
        for number in numbers_in(gone):
            filter_ = self._filters.pop(number)
            del self._numbers[filter_], self._keys[number]
            self._removed(filter_, number)
            self._free.append(number)
        self._sweep_at = max(SWEEP_AT, 2 * len(self))
