"""Predicates exactly as declared: `[protocol] covering = "none"`.

A predicate is a set of filters. It covers another when it contains each of its filters, letter by letter;
nothing is simplified. A routing table then holds exactly the filters that were declared beyond each
interface, as the formulas for the memory of routing schemes assume.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar
from weakref import WeakSet

from router.content.base import Content
from router.predicates.covering.bitset import Bits, numbers_in
from router.predicates.covering.budget import weight_of
from router.predicates.covering.pool import Holder
from router.predicates.model import Filter, Message, Predicate
from router.predicates.printer import format_predicate
from router.predicates.semantics import matches_filter
from router.wire.predicate import encode_filter

#: A pool is searched for filters that no table holds when it has so many, or twice those that one did before.
_SWEEP_AT = 4096
#: Messages whose matching filters are remembered: a message meets the tables of many routers of a simulation.
_REMEMBERED = 4096


class VerbatimPool:
    """Filters under numbers, equal ones under one; see `router.predicates.covering.pool.FilterAlgebra`."""

    def __init__(self) -> None:
        self._numbers: dict[Filter, int] = {}
        self._filters: dict[int, Filter] = {}
        self._texts: dict[int, str] = {}
        self._free: list[int] = []
        self._holders: WeakSet[Holder] = WeakSet()
        self._sweep_at = _SWEEP_AT
        #: By identity of the message, which is kept with its answer and the state of the pool then.
        self._matched: OrderedDict[int, tuple[Message, int, Bits]] = OrderedDict()
        self._version = 0
        self.heaviest = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def register(self, holder: Holder) -> None:
        self._holders.add(holder)

    def numbers(self, predicate: Predicate) -> tuple[int, ...]:
        if len(self) >= self._sweep_at:
            self.sweep()
        return tuple(dict.fromkeys(map(self._number, predicate)))

    def _number(self, filter_: Filter) -> int:
        found = self._numbers.get(filter_)
        if found is None:
            found = self._free.pop() if self._free else len(self._filters)
            self._numbers[filter_] = found
            self._filters[found] = filter_
            self._texts[found] = format_predicate(Predicate((filter_,)))
            self.heaviest = max(self.heaviest, weight_of(filter_))
            self._version += 1
        return found

    def add(self, members: Bits, numbers: Iterable[int], jointly: bool = True) -> Bits:  # noqa: ARG002
        for number in numbers:
            members |= 1 << number
        return members

    def unite(self, members: Bits, others: Bits) -> Bits:
        return members | others

    def covers(self, members: Bits, number: int, jointly: bool = True) -> bool:  # noqa: ARG002
        return bool(members >> number & 1)

    def bounded(self, pairs: int | None, filters: int = 0) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def assume(self, predicate: Predicate, numbers: Iterable[int]) -> None:
        """Not needed: a look-up takes less time than storing the answer."""

    def search(self, numbers: Sequence[int], start: int, weight: int) -> int:  # noqa: ARG002
        """Not needed: filters are not related."""
        return len(numbers)

    def covers_all(self, members: Bits, others: Bits) -> bool:
        return not others & ~members

    def restricted(self, members: Bits, bound: Bits) -> Bits:
        return members & bound

    def predicate(self, members: Bits) -> Predicate:
        ordered = sorted(numbers_in(members), key=self._texts.__getitem__)
        return Predicate(tuple(self._filters[number] for number in ordered))

    def filters(self, numbers: Iterable[int]) -> list[Filter]:
        return [self._filters[number] for number in numbers]

    def matching(self, message: Message) -> Bits:
        entry = self._matched.get(id(message))
        if entry is not None and entry[0] is message and entry[1] == self._version:
            return entry[2]
        found: Bits = 0
        for number, filter_ in self._filters.items():
            if matches_filter(filter_, message):
                found |= 1 << number
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
        self._filters = {number: self._filters[number] for number in numbers_in(live)}
        self._texts = {number: self._texts[number] for number in self._filters}
        self._numbers = {filter_: number for number, filter_ in self._filters.items()}
        self._free = [number for number in range(live.bit_length()) if number not in self._filters]
        self._matched.clear()
        self._version += 1
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
