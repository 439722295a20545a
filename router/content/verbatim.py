"""Predicates exactly as declared: `[protocol] covering = "none"`.

A predicate is a set of filters. It covers another when it contains each of its filters, letter by letter;
nothing is simplified. A routing table then holds exactly the filters that were declared beyond each
interface, as the formulas for the memory of routing schemes assume.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from router.content.base import Content
from router.predicates.covering.bitset import Bits, bits_of
from router.predicates.covering.numbering import NumberedFilters
from router.predicates.model import Filter, Message, Predicate
from router.predicates.printer import format_predicate
from router.predicates.semantics import matches_filter


class VerbatimPool(NumberedFilters[str]):
    """Filters under numbers, in the order of their texts; see `FilterAlgebra`."""

    def __init__(self) -> None:
        super().__init__()
        #: Numbers that were asked for last, and their set.
        self._last: tuple[tuple[int, ...], Bits] = (), 0

    def _key(self, filter_: Filter) -> str:
        return format_predicate(Predicate((filter_,)))

    def _made(self, filters: Iterable[Filter]) -> Predicate:
        return Predicate(tuple(filters))

    def _matching(self, message: Message) -> Bits:
        return bits_of(
            [number for number, filter_ in self._filters.items() if matches_filter(filter_, message)]
        )

    def numbers(self, predicate: Predicate) -> tuple[int, ...]:
        known = predicate.numbered
        if known is not None and known[0] is self._numbering and known[2] is not None:
            self._last = known[1], known[2]
        return super().numbers(predicate)

    def add(self, members: Bits, numbers: Iterable[int], jointly: bool = True) -> Bits:  # noqa: ARG002
        return members | (self._last[1] if numbers is self._last[0] else bits_of(tuple(numbers)))

    def unite(self, members: Bits, others: Bits) -> Bits:
        return members | others

    def covers(self, members: Bits, number: int, jointly: bool = True) -> bool:  # noqa: ARG002
        return bool(members >> number & 1)

    def covers_all(self, members: Bits, others: Bits) -> bool:
        return not others & ~members

    def restricted(self, members: Bits, bound: Bits) -> Bits:
        return members & bound


class Verbatim(Content):
    """Filters are kept as they were declared."""

    pool = VerbatimPool()
    widens: ClassVar[bool] = False

    def widened(self, predicate: Predicate, filters: int) -> Predicate:  # noqa: ARG002
        """Raises ValueError: the options exclude it."""
        raise ValueError('filters are kept as declared (covering = "none"): nothing is over-simplified')
