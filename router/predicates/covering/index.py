"""Finds, among many filters, the few that can help to cover a filter, be covered by it, or be merged with it.

Each filter is a member with a number; sets of members are integers (`router.predicates.covering.thresholds`).
For every attribute the ends of the members' value sets are kept in order, and patterns of strings by text, so
that a question about one attribute is answered for all members at once. Conjunctions are intersections.

Answers hold every member sought and may hold others (what lies between the ends of a value set, and how
patterns combine, is not looked at): whoever asks checks them with `NormalFilter.failures`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TypeVar

from router.predicates.covering.intervals import Key
from router.predicates.covering.normal import Attribute, Family, NormalFilter
from router.predicates.covering.thresholds import Bits, Thresholds, numbers_in
from router.predicates.covering.values import ValueSet, common_texts, key_of, next_key, previous_key
from router.predicates.model import Message, type_of

K = TypeVar("K")


class AttributeIndex:
    """The value sets of the members that constrain one attribute (of one type).

    Attributes:
        members: these members.
    """

    def __init__(self) -> None:
        self.members: Bits = 0
        self._lows = Thresholds()
        self._highs = Thresholds()
        self._suffixes: dict[str, Bits] = {}
        #: Members by the first of their substrings; one is enough to rule most of them out.
        self._substrings: dict[str, Bits] = {}

    def add(self, values: ValueSet, bit: Bits) -> None:
        """Add a member, which allows these values."""
        self.members |= bit
        self._lows.add(values.intervals[0][0], bit)
        self._highs.add(values.intervals[-1][1], bit)
        if values.suffix:
            self._suffixes[values.suffix] = self._suffixes.get(values.suffix, 0) | bit
        if values.substrings:
            first = values.substrings[0]
            self._substrings[first] = self._substrings.get(first, 0) | bit

    def keep_only(self, members: Bits) -> None:
        """Take out all other members."""
        self.members &= members
        self._lows.keep_only(members)
        self._highs.keep_only(members)
        self._suffixes = _kept(self._suffixes, members)
        self._substrings = _kept(self._substrings, members)

    def meeting(self, values: ValueSet) -> Bits:
        """Members that allow some of these values."""
        return self._lows.below(values.intervals[-1][1]) & ~self._highs.at_most(values.intervals[0][0])

    def beside(self, values: ValueSet) -> Bits:
        """Members that allow some of these values, or are at most one value away from them."""
        low, high = values.intervals[0][0], values.intervals[-1][1]
        return self._lows.at_most(next_key(high)) & ~self._highs.below(previous_key(low))

    def holding(self, key: Key) -> Bits:
        """Members that allow the value with this key."""
        return self._lows.at_most(key) & ~self._highs.at_most(key)

    def ruled_out(self, values: ValueSet) -> Bits:
        """Members with a suffix, or first substring, that not all of the values have."""
        if not (self._suffixes or self._substrings):
            return 0
        tail, texts = common_texts(values)
        out = 0
        for suffix, bits in self._suffixes.items():
            if not tail.endswith(suffix):
                out |= bits
        for part, bits in self._substrings.items():
            if not any(part in text for text in texts):
                out |= bits
        return out


class FilterIndex:
    """Filters, as numbered members.

    Attributes:
        members: all of them.
    """

    def __init__(self) -> None:
        self.members: Bits = 0
        self._filters: list[NormalFilter | None] = []
        self._free: list[int] = []
        self._attributes: dict[Attribute, AttributeIndex] = {}
        self._signatures: dict[frozenset[Attribute], Bits] = {}
        self._families: dict[Family, Bits] = {}

    def filter(self, number: int) -> NormalFilter:
        """The member with this number."""
        found = self._filters[number]
        assert found is not None
        return found

    def select(self, bits: Bits) -> Iterator[NormalFilter]:
        """These members, in order of their numbers."""
        return map(self.filter, numbers_in(bits))

    def add(self, filter_: NormalFilter) -> Bits:
        """Add a filter that is no member; returns the set of it alone."""
        if self._free:
            number = self._free.pop()
            self._filters[number] = filter_
        else:
            number = len(self._filters)
            self._filters.append(filter_)
        bit = 1 << number
        self.members |= bit
        self._signatures[filter_.signature] = self._signatures.get(filter_.signature, 0) | bit
        for family in filter_.families.values():
            self._families[family] = self._families.get(family, 0) | bit
        for attribute, values in filter_.items():
            if attribute not in self._attributes:
                self._attributes[attribute] = AttributeIndex()
            self._attributes[attribute].add(values, bit)
        return bit

    def keep_only(self, members: Bits) -> None:
        """Take out all other members; their numbers are free again."""
        for number in numbers_in(self.members & ~members):
            self._filters[number] = None
            self._free.append(number)
        self.members &= members
        self._signatures = _kept(self._signatures, members)
        self._families = _kept(self._families, members)
        for attribute, index in list(self._attributes.items()):
            index.keep_only(members)
            if not index.members:
                del self._attributes[attribute]

    def attribute(self, attribute: Attribute) -> AttributeIndex | None:
        """The index of one attribute; None if no member constrains it."""
        return self._attributes.get(attribute)

    def inside(self, filter_: NormalFilter) -> Bits:
        """Members that constrain no attribute that the filter does not."""
        signature = filter_.signature
        found = self._signatures.get(frozenset(), 0)
        if 1 << len(signature) > len(self._signatures):
            for other, bits in self._signatures.items():
                if other <= signature:
                    found |= bits
            return found
        for size in range(1, len(signature) + 1):
            for some in combinations(signature, size):
                found |= self._signatures.get(frozenset(some), 0)
        return found

    def helpful(self, filter_: NormalFilter) -> Bits:
        """Members that could cover the filter, alone or with others: they ask no more attributes, allow some
        of its values of each, and no pattern that its values lack.
        """
        found = self.inside(filter_)
        for attribute, values in filter_.items():
            index = self._attributes.get(attribute)
            if index is not None:
                found &= index.meeting(values) & ~index.ruled_out(values) | ~index.members
        return found

    def helped(self, filter_: NormalFilter) -> Bits:
        """Members of which the filter asks no more attributes, and allows some values of each."""
        found = self.members
        for attribute, values in filter_.items():
            index = self._attributes.get(attribute)
            if index is None:
                return 0
            found &= index.meeting(values)
        return found

    def relatives(self, filter_: NormalFilter, attribute: Attribute) -> Bits:
        """Members that differ from the filter in the intervals of one attribute only, and have values there
        that are its own, or at most one away from them.
        """
        family = self._families.get(filter_.families[attribute], 0)
        return family & self._attributes[attribute].beside(filter_.attributes[attribute[0]]) if family else 0

    def admitting(self, message: Message) -> Bits:
        """Members that the message may match: none whose intervals exclude one of its values."""
        found = self.members
        for (name, kind), index in self._attributes.items():
            value = message.get(name)
            if value is None or type_of(value) is not kind:
                found &= ~index.members
            else:
                found &= ~index.members | index.holding(key_of(value))
        return found


def _kept(table: dict[K, Bits], members: Bits) -> dict[K, Bits]:
    return {key: bits & members for key, bits in table.items() if bits & members}
