"""Filters under numbers, equal filters under one; filters that no table holds are removed as others come."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable
from typing import Generic
from weakref import WeakSet

from router.predicates.covering.bitset import Bits, CanonicalOrder, Text, bits_of, numbers_in
from router.predicates.covering.pool import Holder
from router.predicates.model import Filter, Message, Predicate

#: A pool is searched for filters that no table holds when it has so many, or twice those that tables held
#: when it was searched last.
SWEEP_AT = 4096
#: Messages whose matching filters are remembered: a message meets the tables of many routers of a simulation.
_REMEMBERED = 4096
#: A larger set of filters is put in order by a pass over all filters of the pool.
_SORTED = 64


class NumberedFilters(ABC, Generic[Text]):
    """The part of a `router.predicates.covering.pool.FilterAlgebra` that numbers filters.

    With H the greatest number of filters that the holders have had, and P the filters of the largest
    predicate, the pool never has more than max(`SWEEP_AT`, 2 H) + P filters, whatever comes and goes.
    """

    def __init__(self) -> None:
        self._numbers: dict[Filter, int] = {}
        self._filters: dict[int, Filter] = {}
        self._keys: dict[int, Text] = {}
        self._order: CanonicalOrder[Text] = CanonicalOrder()
        #: Numbers that were given and may be given again.
        self._free: list[int] = []
        self._holders: WeakSet[Holder] = WeakSet()
        self._sweep_at = SWEEP_AT
        #: Another object once numbers stand for other filters.
        self._numbering = object()
        #: By identity of the message, which is kept with its answer and the state of the pool then.
        self._matched: OrderedDict[int, tuple[Message, int, Bits]] = OrderedDict()
        self._version = 0

    # Of the form of the filters.

    @abstractmethod
    def _key(self, filter_: Filter) -> Text:
        """The place of a filter in the canonical order; no other filter has it."""

    @abstractmethod
    def _made(self, filters: Iterable[Filter]) -> Predicate:
        """The disjunction of filters."""

    @abstractmethod
    def _matching(self, message: Message) -> Bits:
        """The filters that match a message."""

    def _added(self, filter_: Filter, number: int) -> None:
        """A filter has got a number."""

    def _removed(self, filter_: Filter, number: int) -> None:
        """A filter has lost its number."""

    # Numbers.

    def __len__(self) -> int:
        return len(self._numbers)

    def register(self, holder: Holder) -> None:
        """See `FilterAlgebra`."""
        self._holders.add(holder)

    def numbers(self, predicate: Predicate) -> tuple[int, ...]:
        """See `FilterAlgebra`."""
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
            key = self._keys[found] = self._key(filter_)
            self._order.add(key, found)
            self._added(filter_, found)
            self._version += 1
        return found

    def in_order(self, members: Bits) -> list[int]:
        """The numbers of a set in the canonical order of the filters."""
        if members.bit_count() <= _SORTED:
            return sorted(numbers_in(members), key=self._keys.__getitem__)
        return self._order.among(members)

    def predicate(self, members: Bits) -> Predicate:
        """See `FilterAlgebra`."""
        found = self.in_order(members)
        predicate = self._made(map(self._filters.__getitem__, found))
        object.__setattr__(predicate, "numbered", (self._numbering, tuple(found), members))
        return predicate

    def filters(self, numbers: Iterable[int]) -> list[Filter]:
        """See `FilterAlgebra`."""
        return [self._filters[number] for number in numbers]

    def matching(self, message: Message) -> Bits:
        """See `FilterAlgebra`."""
        entry = self._matched.get(id(message))
        if entry is not None and entry[0] is message and entry[1] == self._version:
            return entry[2]
        found = self._matching(message)
        self._matched[id(message)] = message, self._version, found
        if len(self._matched) > _REMEMBERED:
            self._matched.popitem(last=False)
        return found

    # Removal.

    def sweep(self) -> None:
        """Forgets the filters that no holder has.

        Their numbers are given again.
        """
        live: Bits = 0
        for holder in self._holders:
            live |= holder.members
        gone = bits_of(tuple(self._filters)) & ~live
        self._numbering = object()
        self._matched.clear()
        self._version += 1
        self._order.remove(gone)
        for number in numbers_in(gone):
            filter_ = self._filters.pop(number)
            del self._numbers[filter_], self._keys[number]
            self._removed(filter_, number)
            self._free.append(number)
        self._sweep_at = max(SWEEP_AT, 2 * len(self))
