"""Filters under numbers, equal filters under one; filters that no table holds are removed as others come."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable
from typing import Generic
from weakref import WeakSet, ref

from router.predicates.covering.bitset import Bits, bits_of, numbers_in
from router.predicates.covering.canonical_order import CanonicalOrder, K
from router.predicates.covering.pool import Holder
from router.predicates.model import Filter, Message, Predicate

#: A pool is searched for filters that no table holds when it has so many, or twice those that tables held
#: when it was searched last.
SWEEP_AT = 4096
#: Filters that are looked at for removal with each filter whose number is asked for. With two, a pool becomes
#: smaller while filters come that it lacks.
_REMOVED = 2
#: Predicates whose filters are remembered, and messages whose matching filters are: one meets the tables
#: of many routers of a simulation.
_REMEMBERED = 4096
#: A larger set of filters is put in order by a pass over all filters of the pool.
_SORTED = 64


class NumberedFilters(ABC, Generic[K]):
    """The part of a `router.predicates.covering.pool.FilterAlgebra` that numbers filters.

    With H the greatest number of filters that the holders have had, and P the filters of the largest
    predicate, the pool never has more than max(`SWEEP_AT`, 2 H) + 3 P filters, whatever comes and goes. A
    search among n filters finds g that nobody holds; then each call of `numbers` with p filters, which adds
    at most p, removes 2 p of those that it found, apart from those that have come back. So the pool does not
    grow by more than P meanwhile, and g / 2 + P filters later it has at most n - g / 2 + P.
    """

    def __init__(self) -> None:
        self._numbers: dict[Filter, int] = {}
        self._filters: dict[int, Filter] = {}
        self._keys: dict[int, K] = {}
        self._order: CanonicalOrder[K] = CanonicalOrder()
        #: Numbers that were given and may be given again.
        self._free: list[int] = []
        self._holders: WeakSet[Holder] = WeakSet()
        self._sweep_at = SWEEP_AT
        #: The filters that are being removed: no answer has one of them. The list may have others.
        self._gone: Bits = 0
        self._leaving: list[int] = []
        #: By identity of a predicate: the predicate, the numbers of its filters, and their set.
        self._known: OrderedDict[int, tuple[ref[Predicate], tuple[int, ...], Bits]] = OrderedDict()
        #: By identity of the message, which is kept with its answer and the state of the pool then.
        self._matched: OrderedDict[int, tuple[Message, int, Bits]] = OrderedDict()
        self._version = 0

    # Of the form of the filters.

    @abstractmethod
    def _key(self, filter_: Filter) -> K:
        """The place of a filter in the canonical order; no other filter has it."""

    @abstractmethod
    def _made(self, filters: Iterable[Filter]) -> Predicate:
        """The disjunction of filters."""

    @abstractmethod
    def _matching(self, message: Message) -> Bits:
        """The filters that match a message; some of them may be in `_gone`."""

    def _added(self, filter_: Filter, number: int) -> None:
        """A filter has got a number."""

    def _removed(self, filter_: Filter, number: int) -> None:
        """A filter has lost its number; must take no longer than `_added`."""

    def _sweep_begins(self) -> None:
        """Filters are about to lose their numbers: forgets answers about numbers."""

    # Numbers.

    def __len__(self) -> int:
        return len(self._numbers)

    def register(self, holder: Holder) -> None:
        """See `FilterAlgebra`."""
        self._holders.add(holder)

    def numbers(self, predicate: Predicate) -> tuple[int, ...]:
        """See `FilterAlgebra`."""
        known = self._known.get(id(predicate))
        if known is not None and known[0]() is predicate:
            return known[1]
        if not self._leaving and len(self) >= self._sweep_at:
            self._begin_sweep()
        found = tuple(dict.fromkeys(map(self._number, predicate.filters)))
        # After the look-up, which keeps filters that have come back.
        self._remove(_REMOVED * len(predicate.filters))
        return found

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
        elif self._gone >> found & 1:
            self._gone ^= 1 << found
            self._version += 1
        return found

    def _remember(self, predicate: Predicate, numbers: Iterable[int], members: Bits) -> None:
        known, key = self._known, id(predicate)
        known[key] = ref(predicate, lambda _: known.pop(key, None)), tuple(numbers), members
        if len(known) > _REMEMBERED:
            known.popitem(last=False)

    def in_order(self, members: Bits, most: int | None = None) -> list[int]:
        """The numbers of a set in the canonical order of the filters, at most the first `most` of them."""
        if members.bit_count() <= _SORTED:
            return sorted(numbers_in(members), key=self._keys.__getitem__)[:most]
        return self._order.among(members, most)

    def predicate(self, members: Bits) -> Predicate:
        """See `FilterAlgebra`."""
        found = self.in_order(members)
        predicate = self._made(map(self._filters.__getitem__, found))
        self._remember(predicate, found, members)
        return predicate

    def filters(self, numbers: Iterable[int]) -> list[Filter]:
        """See `FilterAlgebra`."""
        return [self._filters[number] for number in numbers]

    def matching(self, message: Message) -> Bits:
        """See `FilterAlgebra`."""
        entry = self._matched.get(id(message))
        if entry is not None and entry[0] is message and entry[1] == self._version:
            return entry[2]
        found = self._matching(message) & ~self._gone
        self._matched[id(message)] = message, self._version, found
        if len(self._matched) > _REMEMBERED:
            self._matched.popitem(last=False)
        return found

    # Removal.

    def sweep(self) -> None:
        """Forgets the filters that no holder has.

        Their numbers are given again.
        """
        self._remove(len(self._leaving))
        self._begin_sweep()
        self._remove(len(self._leaving))

    def _begin_sweep(self) -> None:
        """Finds the filters that no holder has."""
        live: Bits = 0
        for holder in self._holders:
            live |= holder.members
        self._gone = bits_of(tuple(self._filters)) & ~live
        self._leaving = list(numbers_in(self._gone))
        self._known.clear()
        self._matched.clear()
        self._version += 1
        self._sweep_begins()
        self._sweep_at = max(SWEEP_AT, 2 * (len(self) - len(self._leaving)))

    def _remove(self, count: int) -> None:
        """Removes filters that were found, at most so many; their numbers may be given again."""
        if not self._leaving:
            return
        leaving = self._leaving[-count:] if count else []
        del self._leaving[len(self._leaving) - len(leaving) :]
        # One operation on a large set instead of one for each filter.
        removed = [number for number in leaving if self._gone >> number & 1]
        self._gone &= ~bits_of(removed)
        for number in removed:
            filter_ = self._filters.pop(number)
            del self._numbers[filter_]
            self._order.discard(self._keys.pop(number), number)
            self._removed(filter_, number)
        self._free += removed
