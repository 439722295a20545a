"""Predicates exactly as declared: `[protocol] covering = "none"`.

A predicate is a set of filters. It covers another when it contains each of its filters, letter by letter;
nothing is simplified. A routing table then holds exactly the filters that were declared beyond each
interface, as the formulas for the memory of routing schemes assume.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar
from weakref import WeakSet, ref

from router.content.base import Content
from router.predicates.covering.bitset import Bits, bits_of, numbers_in
from router.predicates.covering.budget import weight_of
from router.predicates.covering.canonical_order import CanonicalOrder
from router.predicates.covering.pool import Holder
from router.predicates.model import Filter, Message, Predicate
from router.predicates.printer import format_predicate
from router.predicates.semantics import matches_filter
from router.wire.predicate import encode_filter

#: A pool is searched for filters that no table holds when it has so many, or twice those that one did before.
_SWEEP_AT = 4096
#: Filters that are removed in one step.
_STEP_FILTERS = 500
#: Predicates whose filters are remembered, and messages whose matching filters are: one meets the tables
#: of many routers of a simulation.
_REMEMBERED = 4096


class VerbatimPool:
    """Filters under numbers, equal ones under one; see `router.predicates.covering.pool.FilterAlgebra`.

    Filters that no table holds are removed in steps, some with each predicate whose numbers are asked for.
    """

    def __init__(self) -> None:
        self._numbers: dict[Filter, int] = {}
        self._filters: dict[int, Filter] = {}
        #: By the texts of the filters.
        self._order: CanonicalOrder[str] = CanonicalOrder()
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
        #: Numbers that were asked for last, and their set.
        self._last: tuple[tuple[int, ...], Bits] = (), 0
        #: By identity of the message, which is kept with its answer and the state of the pool then.
        self._matched: OrderedDict[int, tuple[Message, int, Bits]] = OrderedDict()
        self._version = 0
        self.heaviest = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def register(self, holder: Holder) -> None:
        self._holders.add(holder)

    def numbers(self, predicate: Predicate) -> tuple[int, ...]:
        known = self._known.get(id(predicate))
        if known is not None and known[0]() is predicate:
            self._last = known[1:]
            return known[1]
        if self._sweeping is not None:
            self._sweep_further(1 + len(predicate) // _STEP_FILTERS)
        elif len(self) >= self._sweep_at:
            self._sweep_at = 2 * len(self)
            self._sweeping = self._sweep()
            self._sweep_further(1)
        return tuple(dict.fromkeys(map(self._number, predicate)))

    def _number(self, filter_: Filter) -> int:
        found = self._numbers.get(filter_)
        if found is None or self._gone >> found & 1:
            if self._free:
                found = self._free.pop()
            else:
                found, self._given = self._given, self._given + 1
            self._numbers[filter_] = found
            self._filters[found] = filter_
            self._order.add(format_predicate(Predicate((filter_,))), found)
            self.heaviest = max(self.heaviest, weight_of(filter_))
            self._version += 1
        return found

    def add(self, members: Bits, numbers: Iterable[int], jointly: bool = True) -> Bits:  # noqa: ARG002
        return members | (self._last[1] if numbers is self._last[0] else bits_of(tuple(numbers)))

    def unite(self, members: Bits, others: Bits) -> Bits:
        return members | others

    def covers(self, members: Bits, number: int, jointly: bool = True) -> bool:  # noqa: ARG002
        return bool(members >> number & 1)

    def bounded(self, pairs: int | None, filters: int = 0) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def assume(self, predicate: Predicate, numbers: Iterable[int], members: Bits) -> None:
        """See `FilterAlgebra`."""
        known, key = self._known, id(predicate)
        known[key] = ref(predicate, lambda _: known.pop(key, None)), tuple(numbers), members
        if len(known) > _REMEMBERED:
            known.popitem(last=False)

    def search(self, numbers: Sequence[int], start: int, weight: int) -> int:  # noqa: ARG002
        """Not needed: filters are not related."""
        return len(numbers)

    def covers_all(self, members: Bits, others: Bits) -> bool:
        return not others & ~members

    def restricted(self, members: Bits, bound: Bits) -> Bits:
        return members & bound

    def predicate(self, members: Bits) -> Predicate:
        found = self._order.among(members)
        predicate = Predicate(tuple(map(self._filters.__getitem__, found)))
        self.assume(predicate, found, members)
        return predicate

    def predicate_in_steps(self, members: Bits) -> Generator[None, None, Predicate]:
        """See `FilterAlgebra`: in one step."""
        yield from ()
        return self.predicate(members)

    def filters(self, numbers: Iterable[int]) -> list[Filter]:
        return [self._filters[number] for number in numbers]

    def matching(self, message: Message) -> Bits:
        entry = self._matched.get(id(message))
        if entry is not None and entry[0] is message and entry[1] == self._version:
            return entry[2]
        found = bits_of(
            [number for number, filter_ in self._filters.items() if matches_filter(filter_, message)]
        )
        found &= ~self._gone
        self._matched[id(message)] = message, self._version, found
        if len(self._matched) > _REMEMBERED:
            self._matched.popitem(last=False)
        return found

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
        removed = list(numbers_in(gone))
        for start in range(0, len(removed), _STEP_FILTERS):
            for number in removed[start : start + _STEP_FILTERS]:
                filter_ = self._filters.pop(number)
                # The filter may have come back under another number.
                if self._numbers[filter_] == number:
                    del self._numbers[filter_]
            yield
        # Their numbers only now: until here, those that came got others.
        self._free += removed
        self._gone = 0
        self._sweep_at = max(_SWEEP_AT, 2 * len(self))


class Verbatim(Content):
    """Filters are kept as they were declared."""

    pool = VerbatimPool()
    widens: ClassVar[bool] = False

    def prepare(self, filters: Collection[Filter]) -> Iterator[None]:
        """See `Content`."""
        for filter_ in filters:
            encode_filter(filter_)
        yield

    def widened(self, predicate: Predicate, filters: int) -> Predicate:  # noqa: ARG002
        """Raises ValueError: the options exclude it."""
        raise ValueError('filters are kept as declared (covering = "none"): nothing is over-simplified')
