"""Finds, among many filters, the few that can cover a filter, be covered by it, or share values with it.

Each filter is a member with a number; sets of members are integers (`router.predicates.thresholds`). For
every attribute the ends of the members' value sets are kept in order, and patterns of strings by text, so
that a question about one attribute is answered for all members at once. Conjunctions are intersections.

Answers hold every member sought and may hold others (what lies between the ends of a value set, and how
patterns combine, is not looked at): whoever asks checks them with `NormalFilter.failures`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TypeVar

from router.predicates.intervals import Key
from router.predicates.model import Type
from router.predicates.normal import Attribute, NormalFilter
from router.predicates.thresholds import Bits, Thresholds
from router.predicates.values import ValueSet, common_texts, next_key, previous_key

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

    def copy(self) -> AttributeIndex:
        """An independent copy."""
        other = AttributeIndex()
        other.members = self.members
        other._lows, other._highs = self._lows.copy(), self._highs.copy()
        other._suffixes, other._substrings = dict(self._suffixes), dict(self._substrings)
        return other

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

    def remove(self, values: ValueSet, bit: Bits) -> None:
        """Take out a member that was added with these values."""
        self.members ^= bit
        self._lows.remove(values.intervals[0][0], bit)
        self._highs.remove(values.intervals[-1][1], bit)
        if values.suffix:
            _clear(self._suffixes, values.suffix, bit)
        if values.substrings:
            _clear(self._substrings, values.substrings[0], bit)

    def including(self, values: ValueSet) -> Bits:
        """Members that allow at least these values."""
        low, high = values.intervals[0][0], values.intervals[-1][1]
        if values.type is Type.STRING:
            low, high = _latest_low(low), _earliest_high(high)
        found = self._lows.at_most(low) & ~self._highs.below(high)
        if self._suffixes or self._substrings:
            found &= ~self._ruled_out(values)
        return found

    def within(self, values: ValueSet) -> Bits:
        """Members that allow at most these values."""
        low, high = values.intervals[0][0], values.intervals[-1][1]
        if values.type is Type.STRING:
            low, high = low.rstrip(b"\0"), _latest_low(high)
        return self._highs.at_most(high) & ~self._lows.below(low)

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

    def _ruled_out(self, values: ValueSet) -> Bits:
        """Members with a suffix, or first substring, that not all of the values have."""
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
        self._numbers: dict[NormalFilter, int] = {}
        self._attributes: dict[Attribute, AttributeIndex] = {}
        self._signatures: dict[frozenset[Attribute], Bits] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[NormalFilter]:
        return iter(self._numbers)

    def __contains__(self, filter_: NormalFilter) -> bool:
        return filter_ in self._numbers

    def copy(self) -> FilterIndex:
        """An independent copy."""
        other = FilterIndex()
        other.members = self.members
        other._filters, other._free = list(self._filters), list(self._free)
        other._numbers = dict(self._numbers)
        other._attributes = {name: index.copy() for name, index in self._attributes.items()}
        other._signatures = dict(self._signatures)
        return other

    def bit(self, filter_: NormalFilter) -> Bits:
        """The set of this member alone."""
        return 1 << self._numbers[filter_]

    def select(self, bits: Bits) -> Iterator[NormalFilter]:
        """These members, in order of their numbers."""
        while bits:
            lowest = bits & -bits
            bits ^= lowest
            found = self._filters[lowest.bit_length() - 1]
            assert found is not None
            yield found

    def add(self, filter_: NormalFilter) -> Bits:
        """Add a filter that is no member; returns the set of it alone."""
        if self._free:
            number = self._free.pop()
            self._filters[number] = filter_
        else:
            number = len(self._filters)
            self._filters.append(filter_)
        self._numbers[filter_] = number
        bit = 1 << number
        self.members |= bit
        self._signatures[filter_.signature] = self._signatures.get(filter_.signature, 0) | bit
        for attribute, values in filter_.items():
            if attribute not in self._attributes:
                self._attributes[attribute] = AttributeIndex()
            self._attributes[attribute].add(values, bit)
        return bit

    def remove(self, filter_: NormalFilter) -> Bits:
        """Take out a member; returns the set of it alone."""
        number = self._numbers.pop(filter_)
        self._filters[number] = None
        self._free.append(number)
        bit = 1 << number
        self.members ^= bit
        _clear(self._signatures, filter_.signature, bit)
        for attribute, values in filter_.items():
            index = self._attributes[attribute]
            index.remove(values, bit)
            if not index.members:
                del self._attributes[attribute]
        return bit

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

    def covering(self, filter_: NormalFilter) -> tuple[Bits, Bits]:
        """Members that cover the filter, and members that do but for part of its values of one attribute."""
        once = twice = disjoint = 0
        inside = self.inside(filter_)
        for attribute, values in filter_.items():
            index = self._attributes.get(attribute)
            if index is not None:
                failing = inside & index.members & ~index.including(values)
                twice |= once & failing
                once |= failing
                disjoint |= failing & ~index.meeting(values)
        return inside & ~once, once & ~twice & ~disjoint

    def covered(self, filter_: NormalFilter) -> tuple[Bits, Bits]:
        """Members that the filter covers, and members that it covers but for some values of one attribute."""
        once = twice = disjoint = 0
        among = self.members
        for attribute, values in filter_.items():
            index = self._attributes.get(attribute)
            if index is None:
                return 0, 0
            among &= index.members
            failing = among & ~index.within(values)
            twice |= once & failing
            once |= failing
            disjoint |= failing & ~index.meeting(values)
        return among & ~once, among & once & ~twice & ~disjoint


def _clear(table: dict[K, Bits], key: K, bit: Bits) -> None:
    table[key] ^= bit
    if not table[key]:
        del table[key]


def _latest_low(low: bytes) -> bytes:
    """Above all keys that differ from `low` by zero bytes at the end.

    Between two such keys there are finitely many strings; if they lack a suffix or substring that the
    values must have, a value set that starts after them can still include one that starts before.
    """
    return low + b"\x01"


def _earliest_high(high: bytes) -> bytes:
    """Not above any key that differs from `high` by zero bytes at the end: see `_latest_low`."""
    return high.rstrip(b"\0")
