"""Filters under numbers, equal filters under one; filters that no table holds are removed in steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator
from typing import Generic
from weakref import WeakSet, ref

from router.predicates.covering.bitset import Bits, bits_of, numbers_in
from router.predicates.covering.canonical_order import CanonicalOrder, K
from router.predicates.covering.pool import Holder
from router.predicates.model import Filter, Message, Predicate

#: A pool is searched for filters that no table holds when it has so many, or twice those that one did before.
_SWEEP_AT = 4096
#: Filters that are removed in one step.
STEP_FILTERS = 500
#: Predicates whose filters are remembered, and messages whose matching filters are: one meets the tables
#: of many routers of a simulation.
_REMEMBERED = 4096


class NumberedFilters(ABC, Generic[K]):
    """The part of a `router.predicates.covering.pool.FilterAlgebra` that numbers filters.

    Filters that no table holds are removed in steps, some with each predicate whose numbers are asked for.

    Attributes:
        heaviest: see `FilterAlgebra`.
    """

    def __init__(self) -> None:
        self._numbers: dict[Filter, int] = {}
        self._filters: dict[int, Filter] = {}
        self._order: CanonicalOrder[K] = CanonicalOrder()
        #: Numbers that were given, and those of them that may be given again.
        self._given = 0
        self._free: list[int] = []
        self._holders: WeakSet[Holder] = WeakSet()
        self._sweep_at = _SWEEP_AT
        self._sweeping: Iterator[None] | None = None
        #: The filters that are being removed.
        self._gone: Bits = 0
        #: By identity of a predicate: the predicate, the numbers of its filters, and their set.
        self._known: OrderedDict[int, tuple[ref[Predicate], tuple[int, ...], Bits]] = OrderedDict()
        #: By identity of the message, which is kept with its answer and the state of the pool then.
        self._matched: OrderedDict[int, tuple[Message, int, Bits]] = OrderedDict()
        self._version = 0
        self.heaviest = 0

    # Of the form of the filters.

    @abstractmethod
    def _key(self, filter_: Filter) -> K:
        """The place of a filter in the canonical order."""

    @abstractmethod
    def _weight(self, filter_: Filter) -> int:
        """The weight of a filter."""

    @abstractmethod
    def _made(self, filters: Iterable[Filter]) -> Predicate:
        """The disjunction of filters."""

    @abstractmethod
    def _matching(self, message: Message) -> Bits:
        """The filters that match a message; some of them may be in `_gone`."""

    def _add(self, filter_: Filter, number: int) -> None:
        """A filter has got a number."""

    def _remove(self, gone: Bits) -> Iterator[None]:  # noqa: ARG002
        """Forgets what `_add` has noted about filters, in steps."""
        return iter(())

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
        if self._sweeping is not None:
            self._sweep_further(1 + len(predicate) // STEP_FILTERS)
        elif len(self) >= self._sweep_at:
            self._sweep_at = 2 * len(self)
            self._sweeping = self._sweep()
            self._sweep_further(1)
        return tuple(dict.fromkeys(map(self._number, predicate.filters)))

    def _number(self, filter_: Filter) -> int:
        found = self._numbers.get(filter_)
        if found is None or self._gone >> found & 1:
            if self._free:
                found = self._free.pop()
            else:
                found, self._given = self._given, self._given + 1
            self._numbers[filter_] = found
            self._filters[found] = filter_
            self._order.add(self._key(filter_), found)
            self._add(filter_, found)
            self.heaviest = max(self.heaviest, self._weight(filter_))
            self._version += 1
        return found

    def assume(self, predicate: Predicate, numbers: Iterable[int], members: Bits) -> None:
        """See `FilterAlgebra`."""
        known, key = self._known, id(predicate)
        known[key] = ref(predicate, lambda _: known.pop(key, None)), tuple(numbers), members
        if len(known) > _REMEMBERED:
            known.popitem(last=False)

    def predicate(self, members: Bits) -> Predicate:
        """See `FilterAlgebra`."""
        found = self._order.among(members)
        predicate = self._made(map(self._filters.__getitem__, found))
        self.assume(predicate, found, members)
        return predicate

    def predicate_in_steps(self, members: Bits) -> Generator[None, None, Predicate]:
        """See `FilterAlgebra`: in one step."""
        yield from ()
        return self.predicate(members)

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
        for sweeping in (self._sweeping or (), self._sweep()):
            for _ in sweeping:
                pass
        self._sweeping = None

    def _sweep_further(self, steps: int) -> None:
        for _ in range(steps):
            assert self._sweeping is not None
            if next(self._sweeping, self) is self:
                self._sweeping = None
                break

    def _sweep(self) -> Iterator[None]:
        """`sweep` in steps, between which others may be added; no answer has a filter that is removed."""
        live: Bits = 0
        for holder in self._holders:
            live |= holder.members
        gone = self._gone = bits_of(tuple(self._filters)) & ~live
        self._known.clear()
        self._matched.clear()
        self._version += 1
        yield from self._order.remove(gone)
        yield from self._remove(gone)
        removed = list(numbers_in(gone))
        for start in range(0, len(removed), STEP_FILTERS):
            for number in removed[start : start + STEP_FILTERS]:
                filter_ = self._filters.pop(number)
                # The filter may have come back under another number.
                if self._numbers[filter_] == number:
                    del self._numbers[filter_]
            yield
        # Their numbers only now: until here, those that came got others.
        self._free += removed
        self._gone = 0
        self._sweep_at = max(_SWEEP_AT, 2 * len(self))
