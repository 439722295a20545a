"""Index of the constraints on one attribute name and type: finds those that a value satisfies.

Source: Carzaniga and Wolf, "Forwarding in a content-based network", SIGCOMM 2003 (constraint index). Equality
is a hash look-up; inequalities are sorted arrays; `router.matching.counting.strings` adds the operators on
strings. A constraint that several filters contain is stored and tested once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from router.predicates.model import Constraint, Operator, Value


class Links:
    """The filters that contain one constraint.

    Attributes:
        single: interface -> number of its filters that consist of this constraint alone.
        counted: number of each other filter -> its Bloom filter, which excludes most of them.
    """

    __slots__ = ("counted", "single")

    def __init__(self) -> None:
        self.single: dict[int, int] = {}
        self.counted: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self.single or self.counted)

    def add_single(self, interface: int) -> None:
        """Adds a filter that consists of this constraint alone."""
        self.single[interface] = self.single.get(interface, 0) + 1

    def drop_single(self, interface: int) -> None:
        """Removes such a filter."""
        if self.single[interface] == 1:
            del self.single[interface]
        else:
            self.single[interface] -= 1


class _Sorted:
    """Constraints with one inequality operator: bounds in ascending order, and their links."""

    def __init__(self) -> None:
        self.bounds: list[Any] = []
        self.links: list[Links] = []

    def add(self, bound: Value) -> Links:
        position = bisect_left(self.bounds, bound)
        if position == len(self.bounds) or self.bounds[position] != bound:
            self.bounds.insert(position, bound)
            self.links.insert(position, Links())
        return self.links[position]

    def find(self, bound: Value) -> Links:
        return self.links[bisect_left(self.bounds, bound)]

    def drop(self, bound: Value) -> None:
        position = bisect_left(self.bounds, bound)
        del self.bounds[position], self.links[position]


class _Hashed:
    """Constraints by value."""

    def __init__(self) -> None:
        self.links: dict[Value | None, Links] = {}

    def add(self, value: Value | None) -> Links:
        return self.links.setdefault(value, Links())

    def find(self, value: Value | None) -> Links:
        return self.links[value]

    def drop(self, value: Value | None) -> None:
        del self.links[value]


class ConstraintIndex:
    """Constraints on one name and type, each with its links."""

    def __init__(self) -> None:
        self._equal, self._unequal, self._any = _Hashed(), _Hashed(), _Hashed()
        self._less, self._greater, self._at_most, self._at_least = (
            _Sorted(),
            _Sorted(),
            _Sorted(),
            _Sorted(),
        )
        self._parts: dict[Operator, Any] = {
            Operator.EQ: self._equal,
            Operator.NE: self._unequal,
            Operator.LT: self._less,
            Operator.GT: self._greater,
            Operator.LE: self._at_most,
            Operator.GE: self._at_least,
            Operator.ANY: self._any,
        }
        self._constraints = 0

    def __len__(self) -> int:
        return self._constraints

    def add(self, constraint: Constraint) -> Links:
        """Returns the links of a constraint; adds the constraint if the index lacks it."""
        links: Links = self._parts[constraint.operator].add(constraint.value)
        if not links:
            self._constraints += 1
        return links

    def find(self, constraint: Constraint) -> Links:
        """Returns the links of a constraint of the index."""
        links: Links = self._parts[constraint.operator].find(constraint.value)
        return links

    def drop(self, constraint: Constraint) -> None:
        """Removes a constraint of the index."""
        self._parts[constraint.operator].drop(constraint.value)
        self._constraints -= 1

    def satisfied(self, value: Any) -> list[Links]:
        """Returns the links of each constraint that a value of the index's type satisfies."""
        found: list[Links] = []
        if links := self._equal.links.get(value):
            found.append(links)
        if bounds := self._less.bounds:
            found += self._less.links[bisect_right(bounds, value) :]
        if bounds := self._greater.bounds:
            found += self._greater.links[: bisect_left(bounds, value)]
        if bounds := self._at_most.bounds:
            found += self._at_most.links[bisect_left(bounds, value) :]
        if bounds := self._at_least.bounds:
            found += self._at_least.links[: bisect_right(bounds, value)]
        found += self._any.links.values()
        if self._unequal.links:
            found += [links for other, links in self._unequal.links.items() if other != value]
        return found
