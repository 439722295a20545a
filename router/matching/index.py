"""Index of the constraints on one attribute name and type: which of them does a value satisfy?

Source: Carzaniga and Wolf, "Forwarding in a content-based network", SIGCOMM 2003 (constraint index). Equality
is a hash look-up, inequalities are sorted arrays, prefixes and suffixes are hashed by length; substrings
are tried one by one. A constraint that several filters share is stored, and tested, once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

from router.predicates.model import Constraint, Operator, Value

#: The filters that share a constraint, by number. A dict keeps their order and drops one in constant time.
Links = dict[int, None]


class _Sorted:
    """Constraints of one inequality: bounds in ascending order, and the links of each."""

    def __init__(self) -> None:
        self.bounds: list[Any] = []
        self.links: list[Links] = []

    def add(self, bound: Value) -> Links:
        position = bisect_left(self.bounds, bound)
        if position == len(self.bounds) or self.bounds[position] != bound:
            self.bounds.insert(position, bound)
            self.links.insert(position, {})
        return self.links[position]

    def find(self, bound: Value) -> Links:
        return self.links[bisect_left(self.bounds, bound)]

    def drop(self, bound: Value) -> None:
        position = bisect_left(self.bounds, bound)
        del self.bounds[position], self.links[position]


class _Affixes:
    """Prefixes or suffixes, by length and text."""

    def __init__(self) -> None:
        self.by_length: dict[int, dict[str, Links]] = {}

    def add(self, text: str) -> Links:
        return self.by_length.setdefault(len(text), {}).setdefault(text, {})

    def find(self, text: str) -> Links:
        return self.by_length[len(text)][text]

    def drop(self, text: str) -> None:
        group = self.by_length[len(text)]
        del group[text]
        if not group:
            del self.by_length[len(text)]


class _Hashed:
    """Constraints by value."""

    def __init__(self) -> None:
        self.links: dict[Value | None, Links] = {}

    def add(self, value: Value | None) -> Links:
        return self.links.setdefault(value, {})

    def find(self, value: Value | None) -> Links:
        return self.links[value]

    def drop(self, value: Value | None) -> None:
        del self.links[value]


class ConstraintIndex:
    """Constraints on one name and type, each linked to the filters that it is part of."""

    def __init__(self) -> None:
        self._equal, self._unequal, self._any, self._substrings = _Hashed(), _Hashed(), _Hashed(), _Hashed()
        self._less, self._greater, self._at_most, self._at_least = _Sorted(), _Sorted(), _Sorted(), _Sorted()
        self._prefixes, self._suffixes = _Affixes(), _Affixes()
        self._parts: dict[Operator, Any] = {
            Operator.EQ: self._equal,
            Operator.NE: self._unequal,
            Operator.LT: self._less,
            Operator.GT: self._greater,
            Operator.LE: self._at_most,
            Operator.GE: self._at_least,
            Operator.PREFIX: self._prefixes,
            Operator.SUFFIX: self._suffixes,
            Operator.SUBSTRING: self._substrings,
            Operator.ANY: self._any,
        }
        self._constraints = 0

    def __len__(self) -> int:
        return self._constraints

    def link(self, constraint: Constraint, filter_: int) -> None:
        """Make the constraint part of the filter."""
        links: Links = self._parts[constraint.operator].add(constraint.value)
        if not links:
            self._constraints += 1
        links[filter_] = None

    def unlink(self, constraint: Constraint, filter_: int) -> None:
        """Undo `link`; a constraint that is part of no filter is dropped."""
        part = self._parts[constraint.operator]
        links: Links = part.find(constraint.value)
        del links[filter_]
        if not links:
            part.drop(constraint.value)
            self._constraints -= 1

    def satisfied(self, value: Any) -> Iterator[Links]:
        """For each constraint that a value (of the index's type) satisfies, the filters it is part of."""
        if links := self._equal.links.get(value):
            yield links
        if bounds := self._less.bounds:
            yield from self._less.links[bisect_right(bounds, value) :]
        if bounds := self._greater.bounds:
            yield from self._greater.links[: bisect_left(bounds, value)]
        if bounds := self._at_most.bounds:
            yield from self._at_most.links[bisect_left(bounds, value) :]
        if bounds := self._at_least.bounds:
            yield from self._at_least.links[: bisect_right(bounds, value)]
        yield from self._any.links.values()
        for other, links in self._unequal.links.items():
            if other != value:
                yield links
        if isinstance(value, str):
            yield from self._satisfied_patterns(value)

    def _satisfied_patterns(self, text: str) -> Iterator[Links]:
        for length, group in self._prefixes.by_length.items():
            if length <= len(text) and (links := group.get(text[:length])):
                yield links
        for length, group in self._suffixes.by_length.items():
            if length <= len(text) and (links := group.get(text[len(text) - length :])):
                yield links
        for part, links in self._substrings.links.items():
            if isinstance(part, str) and part in text:
                yield links
