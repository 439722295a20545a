"""Matching by counting satisfied constraints: the complete algorithm of the forwarding papers, in Python.

Source: Carzaniga and Wolf, "Forwarding in a content-based network", SIGCOMM 2003, and the slides on it. Each
attribute of the message is looked up in the index of constraints on its name and type. Each satisfied
constraint increments the count of every filter that contains it. A filter whose count reaches its number of
constraints matches, and so does its interface, which is not evaluated further. Before that, the selectivity
table excludes interfaces, and Bloom filters of attributes exclude filters that the message cannot match.

The papers' table is rebuilt at each change; this table is changed in place, by the difference between the old
and the new predicate of an interface. Selectivity table and Bloom filters contain the type of an attribute
along with its name.

Equality is a hash look-up, inequalities are sorted arrays, and a constraint that several filters contain is
stored and tested once. The papers search one ternary search tree, with backtracking, for `=`, `<`, `>`,
prefixes, suffixes and substrings. This index hashes prefixes, suffixes and substrings by their length, and
looks up the parts of a value that have one of these lengths.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any
from zlib import crc32

from router.matching.engines import Matcher
from router.predicates import (
    STRING_ONLY,
    Constraint,
    Filter,
    Message,
    Operator,
    Type,
    Value,
    matches_filter,
    type_of,
)

#: Name and type: a constraint requires both.
Attribute = tuple[str, Type]
#: The index finds the satisfied constraints of all interfaces. If fewer than one filter in this many is to be
#: matched, direct evaluation is faster (measured: 0.5 us a filter against 0.04 us).
_DIRECT_SHARE = 12
#: Operators whose constraints are found by value, and those whose bounds are sorted.
_HASHED = (Operator.EQ, Operator.NE, Operator.ANY)
_SORTED = (Operator.LT, Operator.GT, Operator.LE, Operator.GE)
#: Bits of the Bloom filter of a filter: two digits of a Python integer.
_BLOOM_BITS = 60


@dataclass(frozen=True, slots=True)
class CountingOptions:
    """The optimisations of the counting engine.

    None of them changes an answer.

    Attributes:
        rounds: the number of pre-processing rounds: attributes of the selectivity table that are considered
            (SIGCOMM 2003 paper, which has 10; slides, "Selectivity Preprocessing"). 0: no table. With this
            index, the table saves no time (docs/figures/forwarding.md).
        bloom: a Bloom filter of attributes excludes filters with an attribute that the message lacks, before
            anything is counted (slides, "Bloom Filters").
        short_circuit: an interface that has matched is not evaluated further (paper).
        direct: if few filters are to be matched, they are evaluated without the index (not in the papers).
    """

    rounds: int = 0
    bloom: bool = True
    short_circuit: bool = True
    direct: bool = True


def selectivity_table(filters: Mapping[int, Iterable[Filter]]) -> list[tuple[Attribute, set[int]]]:
    """Returns attributes, each with the interfaces that a message without it excludes.

    Source: Carzaniga and Wolf, SIGCOMM 2003 (determinant attributes), and the slides ("Selectivity Table").
    An attribute is selective for an interface if every filter of its predicate has a constraint on the
    attribute. The attributes that are selective for most interfaces come first.

    Args:
        filters: of each interface.
    """
    selective: dict[Attribute, set[int]] = {}
    for interface, own in filters.items():
        attributes = [set(map(_attribute, filter_)) for filter_ in own]
        for attribute in set.intersection(*attributes) if attributes else ():
            selective.setdefault(attribute, set()).add(interface)
    return sorted(selective.items(), key=lambda item: -len(item[1]))


#: The filters that contain one constraint: number of each -> its Bloom filter, which excludes most of them;
#: its interface; the number of its distinct constraints.
Links = dict[int, tuple[int, int, int]]


class _Sorted:
    """Constraints with one inequality operator: bounds in ascending order, and their links."""

    def __init__(self) -> None:
        self.bounds: list[Any] = []
        self.links: list[Links] = []

    def add(self, bound: Any) -> Links:
        position = bisect_left(self.bounds, bound)
        if position == len(self.bounds) or self.bounds[position] != bound:
            self.bounds.insert(position, bound)
            self.links.insert(position, {})
        return self.links[position]

    def drop(self, bound: Any) -> None:
        position = bisect_left(self.bounds, bound)
        del self.bounds[position], self.links[position]


class ConstraintIndex:
    """Constraints on one name and type, each with its links."""

    def __init__(self) -> None:
        self._hashed: dict[Operator, dict[Value | None, Links]] = {each: {} for each in _HASHED}
        self._sorted = {each: _Sorted() for each in _SORTED}
        #: Operator -> length of a text -> text -> its links.
        self._patterns: dict[Operator, dict[int, dict[str, Links]]] = {each: {} for each in STRING_ONLY}

    def __bool__(self) -> bool:
        kept = any(each.bounds for each in self._sorted.values())
        return kept or any(self._hashed.values()) or any(self._patterns.values())

    def add(self, constraint: Constraint) -> Links:
        """Returns the links of a constraint; adds the constraint if the index lacks it."""
        operator, value = constraint.operator, constraint.value
        if operator in self._hashed:
            return self._hashed[operator].setdefault(value, {})
        if operator in self._sorted:
            return self._sorted[operator].add(value)
        text = str(value)
        return self._patterns[operator].setdefault(len(text), {}).setdefault(text, {})

    def drop(self, constraint: Constraint) -> None:
        operator, value = constraint.operator, constraint.value
        if operator in self._hashed:
            del self._hashed[operator][value]
        elif operator in self._sorted:
            self._sorted[operator].drop(value)
        else:
            text = str(value)
            texts = self._patterns[operator][len(text)]
            del texts[text]
            if not texts:
                del self._patterns[operator][len(text)]

    def satisfied(self, value: Any) -> list[Links]:
        """Returns the links of each constraint that a value of the index's type satisfies."""
        found: list[Links] = []
        if links := self._hashed[Operator.EQ].get(value):
            found.append(links)
        less, greater = self._sorted[Operator.LT], self._sorted[Operator.GT]
        at_most, at_least = self._sorted[Operator.LE], self._sorted[Operator.GE]
        found += less.links[bisect_right(less.bounds, value) :]
        found += greater.links[: bisect_left(greater.bounds, value)]
        found += at_most.links[bisect_left(at_most.bounds, value) :]
        found += at_least.links[: bisect_right(at_least.bounds, value)]
        found += self._hashed[Operator.ANY].values()
        found += [links for other, links in self._hashed[Operator.NE].items() if other != value]
        return found + self._satisfied_patterns(value) if isinstance(value, str) else found

    def _satisfied_patterns(self, value: str) -> list[Links]:
        found: list[Links] = []
        for size, texts in self._patterns[Operator.PREFIX].items():
            if links := texts.get(value[:size]):
                found.append(links)
        for size, texts in self._patterns[Operator.SUFFIX].items():
            # The empty text is in every value; value[-0:] would be the whole value.
            if links := texts.get(value[-size:] if size else ""):
                found.append(links)
        for size, texts in self._patterns[Operator.SUBSTRING].items():
            if len(value) - size > len(texts):
                found += [links for text, links in texts.items() if text in value]
            else:
                parts = {value[start : start + size] for start in range(len(value) - size + 1)}
                found += [texts[part] for part in parts & texts.keys()]
        return found


class CountingMatcher(Matcher):
    """The counting algorithm over a constraint index.

    Args:
        options: the optimisations to use, which may be changed later.
    """

    def __init__(self, options: CountingOptions | None = None) -> None:
        self.options = options or CountingOptions()
        self._indexes: defaultdict[Attribute, ConstraintIndex] = defaultdict(ConstraintIndex)
        #: See `selectivity_table`; None: filters have changed since.
        self._excluding: list[tuple[Attribute, set[int]]] | None = None
        #: For each interface, its filters and their numbers in the index.
        self._filters: dict[int, dict[Filter, int]] = {}
        self._numbers = count()
        #: The number of filters of all interfaces.
        self._held = 0
        #: Interfaces with a filter without constraints, which match every message.
        self._always: set[int] = set()

    def change(self, interface: int, gone: Iterable[Filter], added: Iterable[Filter]) -> None:
        held = self._filters.setdefault(interface, {})
        for filter_ in gone:
            self._drop(interface, filter_)
        for filter_ in added:
            if filter_ not in held:
                self._add(interface, filter_)

    def remove(self, interface: int) -> None:
        self.change(interface, list(self._filters.get(interface, ())), ())
        del self._filters[interface]

    def match(self, message: Message, among: Collection[int] | None = None) -> frozenset[int]:
        """See `Matcher`.

        The interfaces outside `among` are the papers' broadcast exclusion set.
        """
        # Interfaces that need no (further) evaluation.
        excluded = set() if among is None else self._filters.keys() - set(among)
        matched = self._always - excluded
        excluded |= self._always
        attributes = {(name, type_of(value)): value for name, value in message.items()}
        if self.options.rounds:
            self.exclude(attributes, excluded)
        if self.options.direct and 2 * len(excluded) >= len(self._filters):
            open_ = self._filters.keys() - excluded
            asked = sum(len(self._filters[interface]) for interface in open_)
            if asked * _DIRECT_SHARE < self._held:
                for interface in open_:
                    if any(matches_filter(filter_, message) for filter_ in self._filters[interface]):
                        matched.add(interface)
                return frozenset(matched)
        satisfied = [
            links
            for attribute, value in attributes.items()
            if (index := self._indexes.get(attribute)) is not None
            for links in index.satisfied(value)
        ]
        if len(excluded) < len(self._filters):
            missing = 0
            if self.options.bloom:
                missing = -1
                for attribute in attributes:
                    missing &= ~_bit(attribute)
            self._count(satisfied, matched, excluded, missing)
        return frozenset(matched)

    def exclude(self, attributes: Container[Attribute], excluded: set[int]) -> None:
        """Adds to `excluded` interfaces that a message with these attributes cannot match."""
        if self._excluding is None:
            self._excluding = selectivity_table(self._filters)
        for attribute, interfaces in self._excluding[: self.options.rounds]:
            if attribute not in attributes:
                excluded |= interfaces

    def _count(self, satisfied: list[Links], matched: set[int], excluded: set[int], missing: int) -> None:
        """Adds to `matched` the interfaces not in `excluded` with a filter that is satisfied wholly.

        Adds them to `excluded` if the short circuit is on.

        Args:
            satisfied: the links of the satisfied constraints.
            excluded: interfaces that are not evaluated.
            missing: the bits of the Bloom filter that no attribute of the message sets; 0 to count every
                filter.
        """
        counts: dict[int, int] = {}
        short_circuit = self.options.short_circuit
        for links in satisfied:
            for number, (bloom, interface, size) in links.items():
                if bloom & missing or interface in excluded:
                    continue
                counts[number] = known = counts.get(number, 0) + 1
                if known == size:
                    matched.add(interface)
                    if short_circuit:
                        excluded.add(interface)
                        if len(excluded) == len(self._filters):
                            return

    def _add(self, interface: int, filter_: Filter) -> None:
        constraints = set(filter_)
        bloom = 0
        for constraint in constraints:
            bloom |= _bit(_attribute(constraint))
        self._filters[interface][filter_] = number = next(self._numbers)
        entry = bloom, interface, len(constraints)
        if not constraints:
            self._always.add(interface)
        for constraint in constraints:
            self._indexes[_attribute(constraint)].add(constraint)[number] = entry
        self._held += 1
        self._excluding = None

    def _drop(self, interface: int, filter_: Filter) -> None:
        number = self._filters[interface].pop(filter_)
        constraints = set(filter_)
        if not constraints:
            self._always.discard(interface)
        for constraint in constraints:
            index = self._indexes[_attribute(constraint)]
            links = index.add(constraint)
            del links[number]
            if not links:
                index.drop(constraint)
                if not index:
                    del self._indexes[_attribute(constraint)]
        self._held -= 1
        self._excluding = None


def _attribute(constraint: Constraint) -> Attribute:
    return constraint.name, constraint.type


@lru_cache(maxsize=4096)
def _bit(attribute: Attribute) -> int:
    """Returns the bit of an attribute in Bloom filters; one hash function, as on the slides."""
    name, kind = attribute
    return 1 << (crc32(name.encode(), kind) % _BLOOM_BITS)
