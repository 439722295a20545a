"""Index of the constraints on one attribute name and type, and the table of selective attributes.

Source: Carzaniga and Wolf, "Forwarding in a content-based network", SIGCOMM 2003 (constraint index). Equality
is a hash look-up; inequalities are sorted arrays; `StringIndex` adds the operators on strings. A constraint
that several filters contain is stored and tested once.

The papers search one ternary search tree, with backtracking, for `=`, `<`, `>`, prefixes, suffixes and
substrings. `StringIndex` hashes equalities, sorts the bounds of `<` and `>`, and hashes prefixes and
substrings by their first characters, and suffixes by their last ones, at most four. The grams of a value lead
to the few constraints that it can satisfy. `./run.sh bench match --figure strings` compares it with a search
tree.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Container, Iterable
from heapq import nlargest
from typing import Any

from router.predicates.model import Constraint, Operator, Type, Value

#: Name and type: a constraint requires both.
Attribute = tuple[str, Type]


class SelectivityTable:
    """The attributes that are selective for each interface, which exclude it for messages that lack them.

    Source: Carzaniga and Wolf, SIGCOMM 2003 (determinant attributes), and the slides ("Selectivity Table").
    An attribute is selective for an interface if every filter of its predicate has a constraint on the
    attribute. The papers compute the table when the forwarding table is built; this table is updated with
    each filter.

    Args:
        rounds: the number of attributes to check for a message: those that are selective for most interfaces.
    """

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        #: By interface: the number of filters, and of those with a constraint on each attribute.
        self._filters: Counter[int] = Counter()
        self._having: dict[int, Counter[Attribute]] = {}
        self._selective: dict[Attribute, set[int]] = {}
        self._selective_for: dict[int, list[Attribute]] = {}
        self._stale: set[int] = set()
        self._best: list[tuple[Attribute, set[int]]] = []

    def add(self, interface: int, attributes: Iterable[Attribute]) -> None:
        """Adds a filter of an interface, with constraints on these attributes (without duplicates)."""
        self._filters[interface] += 1
        self._having.setdefault(interface, Counter()).update(attributes)
        self._stale.add(interface)

    def drop(self, interface: int, attributes: Iterable[Attribute]) -> None:
        """Removes a filter that was added."""
        self._filters[interface] -= 1
        having = self._having[interface]
        for attribute in attributes:
            having[attribute] -= 1
            if not having[attribute]:
                del having[attribute]
        self._stale.add(interface)

    def exclude(self, attributes: Container[Attribute], excluded: set[int]) -> None:
        """Adds to `excluded` the interfaces that a message with these attributes cannot match."""
        if self._stale:
            self._refresh()
        for attribute, interfaces in self._best:
            if attribute not in attributes:
                excluded |= interfaces

    def _refresh(self) -> None:
        for interface in self._stale:
            for attribute in self._selective_for.pop(interface, ()):
                self._selective[attribute].remove(interface)
                if not self._selective[attribute]:
                    del self._selective[attribute]
            filters = self._filters[interface]
            if not filters:
                del self._filters[interface], self._having[interface]
                continue
            having = self._having[interface]
            self._selective_for[interface] = [a for a, count in having.items() if count == filters]
            for attribute in self._selective_for[interface]:
                self._selective.setdefault(attribute, set()).add(interface)
        self._stale.clear()
        self._best = nlargest(self._rounds, self._selective.items(), key=lambda item: len(item[1]))


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


_GRAM = 4
#: Looking up a gram takes about the time of searching a value of this length for a substring.
_LONG = 64


class PatternPart:
    """The prefixes, suffixes or substrings by their grams.

    Args:
        at_end: whether the grams are the last characters.
    """

    def __init__(self, at_end: bool = False) -> None:
        self._at_end = at_end
        #: Size of the gram (less than `_GRAM`: the whole text) -> gram -> text -> its links.
        self.by_size: dict[int, dict[str, dict[str, Links]]] = {}
        self.texts = 0
        #: Characters of all texts.
        self.length = 0

    def _gram(self, text: str) -> str:
        return text[-_GRAM:] if self._at_end else text[:_GRAM]

    def add(self, value: Value | None) -> Links:
        """Returns the links of a text; adds the text if it is absent."""
        text = str(value)
        gram = self._gram(text)
        texts = self.by_size.setdefault(len(gram), {}).setdefault(gram, {})
        links = texts.get(text)
        if links is None:
            links = texts[text] = Links()
            self.texts += 1
            self.length += len(text)
        return links

    def find(self, value: Value | None) -> Links:
        """Returns the links of a text that was added."""
        text = str(value)
        gram = self._gram(text)
        return self.by_size[len(gram)][gram][text]

    def drop(self, value: Value | None) -> None:
        """Removes a text that was added."""
        text = str(value)
        gram = self._gram(text)
        grams = self.by_size[len(gram)]
        del grams[gram][text]
        self.texts -= 1
        self.length -= len(text)
        if not grams[gram]:
            del grams[gram]
            if not grams:
                del self.by_size[len(gram)]


class StringIndex(ConstraintIndex):
    """Constraints on one name and the type string, each with its links."""

    def __init__(self) -> None:
        super().__init__()
        self._prefixes, self._suffixes, self._substrings = PatternPart(), PatternPart(True), PatternPart()
        self._parts[Operator.PREFIX] = self._prefixes
        self._parts[Operator.SUFFIX] = self._suffixes
        self._parts[Operator.SUBSTRING] = self._substrings

    def satisfied(self, value: str) -> list[Links]:
        """See `ConstraintIndex`."""
        found = super().satisfied(value)
        # The empty gram is in every value; value[-0:] would be the whole value.
        for size, grams in self._prefixes.by_size.items():
            if texts := grams.get(value[:size]):
                found += [links for text, links in texts.items() if value.startswith(text)]
        for size, grams in self._suffixes.by_size.items():
            if texts := grams.get(value[-size:] if size else ""):
                found += [links for text, links in texts.items() if value.endswith(text)]
        if self._substrings.texts:
            found += self._satisfied_substrings(value)
        return found

    def _satisfied_substrings(self, value: str) -> list[Links]:
        by_size = self._substrings.by_size
        if len(value) > _LONG + self._substrings.texts:
            pairs = (
                pair for grams in by_size.values() for bucket in grams.values() for pair in bucket.items()
            )
            return [links for text, links in pairs if text in value]
        # By text, so that one that occurs several times in the value counts once.
        found: dict[str, Links] = {}
        for size, grams in by_size.items():
            for start in range(len(value) - size + 1):
                if texts := grams.get(value[start : start + size]):
                    found.update(
                        (text, links) for text, links in texts.items() if value.startswith(text, start)
                    )
        return list(found.values())
