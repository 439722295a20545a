"""An index of filters: the few among many that can cover a filter, be covered by it, or be merged with it.

Each filter is a member with a number; sets of members are integers (`router.predicates.covering.bitset`).
For every attribute, the lower and upper ends of the members' value sets are kept in order, and the patterns
of strings by their grams, so that one query about an attribute answers for all members. A conjunction is an
intersection of such answers.

Answers are supersets: they ignore the gaps inside a value set and compare grams, not patterns. Callers
verify each member with `NormalFilter.failures`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from router.predicates import Filter, Message, Type, Value, type_of
from router.predicates.covering.bitset import Bits, Thresholds, numbers_in, remove_from
from router.predicates.covering.intervals import Key
from router.predicates.covering.normal import Attribute, Family, NormalFilter
from router.predicates.covering.patterns import PatternIndex
from router.predicates.covering.values import ValueSet, key_of, next_key, previous_key

_NO_FILTER = Filter()


class AttributeIndex:
    """The value sets of the members that constrain one attribute (of one type).

    Attributes:
        members: the members that constrain it.
        irregular: those with gaps in the range of values, or with patterns.
        patterns: their suffixes and substrings; None if the type is not string.
    """

    def __init__(self, kind: Type) -> None:
        self.members: Bits = 0
        self.irregular: Bits = 0
        self._lows = Thresholds()
        self._highs = Thresholds()
        self.patterns = PatternIndex() if kind is Type.STRING else None

    def add(self, values: ValueSet, bit: Bits) -> None:
        """Adds a member that allows these values."""
        self.members |= bit
        if len(values.intervals) > 1 or not values.is_plain:
            self.irregular |= bit
        self._lows.add(values.intervals[0][0], bit)
        self._highs.add(values.intervals[-1][1], bit)
        if self.patterns is not None:
            self.patterns.add(values, bit)

    def remove(self, gone: Bits) -> None:
        self.members &= ~gone
        self.irregular &= ~gone
        self._lows.remove(gone)
        self._highs.remove(gone)
        if self.patterns is not None:
            self.patterns.remove(gone)

    def overlapping(self, values: ValueSet) -> Bits:
        """Returns the members whose range of values overlaps that of `values`."""
        low, high = values.intervals[0][0], values.intervals[-1][1]
        return self._lows.below(high) & ~self._highs.at_most(low)

    def overlapping_or_adjacent(self, values: ValueSet) -> Bits:
        """Returns the members whose range of values overlaps that of `values` or is next to it."""
        low, high = values.intervals[0][0], values.intervals[-1][1]
        return self._lows.at_most(next_key(high)) & ~self._highs.below(previous_key(low))

    def containing(self, key: Key) -> Bits:
        """Returns the members whose range of values contains `key`."""
        return self._lows.at_most(key) & ~self._highs.at_most(key)

    def around(self, values: ValueSet) -> Bits:
        """Returns the members without gaps and patterns whose range contains that of `values`."""
        low, high = values.intervals[0][0], values.intervals[-1][1]
        return self._lows.at_most(low) & ~self._highs.below(high) & ~self.irregular

    def inside(self, low: Key, high: Key) -> Bits:
        """Returns the members whose range of values is within an interval."""
        return self._highs.at_most(high) & ~self._lows.below(low)

    def requiring_others(self, values: ValueSet) -> Bits:
        return 0 if self.patterns is None else self.patterns.requiring_others(values)


class FilterIndex:
    """Filters, as numbered members.

    Attributes:
        members: the numbers of all members.
        keys: the sort key of each member, by number.
        canonical: the canonical filter of each member, by number.
    """

    def __init__(self) -> None:
        self.members: Bits = 0
        self.keys: list[bytes] = []
        self.canonical: list[Filter] = []
        self._filters: list[NormalFilter | None] = []
        self._free: list[int] = []
        self._attributes: dict[Attribute, AttributeIndex] = {}
        self._signatures: dict[frozenset[Attribute], Bits] = {}
        self._families: dict[Family, Bits] = {}
        #: The families of filters whose own key another family has: keys contain hashes.
        self._collided: dict[tuple[NormalFilter, Attribute], Family] = {}

    def filter(self, number: int) -> NormalFilter:
        found = self._filters[number]
        assert found is not None
        return found

    def select(self, bits: Bits) -> Iterator[NormalFilter]:
        """Yields the members with these numbers, in ascending order of the numbers."""
        return map(self.filter, numbers_in(bits))

    def add(self, filter_: NormalFilter) -> Bits:
        """Adds a filter that is not a member; returns the set that holds its number alone."""
        if self._free:
            number = self._free.pop()
            self._filters[number] = filter_
            self.keys[number], self.canonical[number] = filter_.key, filter_.filter
        else:
            number = len(self._filters)
            self._filters.append(filter_)
            self.keys.append(filter_.key)
            self.canonical.append(filter_.filter)
        bit = 1 << number
        self.members |= bit
        self._signatures[filter_.signature] = self._signatures.get(filter_.signature, 0) | bit
        self._add_to_families(filter_, bit)
        for attribute, values in filter_.items():
            if attribute not in self._attributes:
                self._attributes[attribute] = AttributeIndex(attribute[1])
            self._attributes[attribute].add(values, bit)
        return bit

    def _add_to_families(self, filter_: NormalFilter, bit: Bits) -> None:
        for attribute, key in filter_.families.items():
            family = key
            # One member stands for all: they are equal but for the intervals of the attribute.
            while known := self._families.get(family, 0):
                if filter_.differs_only_in(attribute[0], self.filter((known & -known).bit_length() - 1)):
                    break
                family = (*family, None)
            if family != key:
                self._collided[filter_, attribute] = family
            self._families[family] = known | bit

    def remove(self, gone: Bits) -> None:
        """Removes members; their numbers can be given to others."""
        self.members &= ~gone
        for attribute, index in list(self._attributes.items()):
            if not index.members & ~gone:
                del self._attributes[attribute]
            elif index.members & gone:
                index.remove(gone)
        remove_from(self._signatures, gone)
        if self._collided:
            # A family that has gone may have stood before others with its key.
            self._families, self._collided = {}, {}
            for number in numbers_in(self.members):
                self._add_to_families(self.filter(number), 1 << number)
        else:
            remove_from(self._families, gone)
        for number in numbers_in(gone):
            self._filters[number] = None
            self.keys[number], self.canonical[number] = b"", _NO_FILTER
            self._free.append(number)

    def attribute(self, attribute: Attribute) -> AttributeIndex | None:
        """Returns the index of one attribute; None if no member constrains it."""
        return self._attributes.get(attribute)

    def constraining_at_most(self, filter_: NormalFilter) -> Bits:
        """Returns the members all of whose attributes the filter constrains too."""
        signature = filter_.signature
        found = self._signatures.get(frozenset(), 0)
        # The number of subsets is 2 ** len(signature): it is formed only if it is small.
        if len(signature) > 16 or 1 << len(signature) > len(self._signatures):
            for other, bits in self._signatures.items():
                if other <= signature:
                    found |= bits
            return found
        for size in range(1, len(signature) + 1):
            for some in combinations(signature, size):
                found |= self._signatures.get(frozenset(some), 0)
        return found

    def related(self, filter_: NormalFilter) -> tuple[Bits, Bits]:
        """Returns the members that can cover the filter, perhaps together, and those that it can cover.

        Possible covers constrain no attribute that the filter does not constrain, overlap it on each, and
        require no pattern that some of its values lack. It can cover those of which it is a possible cover.
        """
        covers, covered = self.constraining_at_most(filter_), self.members
        for attribute, values in filter_.items():
            index = self._attributes.get(attribute)
            if index is None:
                covered = 0
                continue
            found = index.overlapping(values)
            if covers & index.members:
                covers &= found & ~index.requiring_others(values) | ~index.members
            covered &= found
            if not values.is_plain and covered and index.patterns is not None:
                covered &= index.patterns.with_patterns_of(values)
        return covers, covered

    def ranges_around(self, filter_: NormalFilter) -> Bits:
        """Returns the members that cover the filter and constrain single intervals only."""
        found = self.constraining_at_most(filter_)
        for attribute, values in filter_.items():
            index = self._attributes.get(attribute)
            if index is not None and found:
                found &= index.around(values) | ~index.members
        return found

    def inside_ranges(self, filter_: NormalFilter) -> Bits:
        """Returns the members that the filter covers, if it constrains single intervals only; else none."""
        found = self.members
        for attribute, values in filter_.items():
            index = self._attributes.get(attribute)
            if index is None or len(values.intervals) > 1 or not values.is_plain:
                return 0
            found &= index.inside(*values.intervals[0])
        return found

    def mergeable(self, filter_: NormalFilter, attribute: Attribute, among: Bits = -1) -> Bits:
        """Returns the members of `among` that differ from a member in the intervals of one attribute only.

        Members whose range of values is neither overlapping nor adjacent are left out.
        """
        key = filter_.families[attribute]
        if self._collided:
            key = self._collided.get((filter_, attribute), key)
        family = self._families.get(key, 0) & among
        if not family:
            return 0
        values = filter_.attributes[attribute[0]]
        return family & self._attributes[attribute].overlapping_or_adjacent(values)

    def matching(self, message: Message) -> Bits:
        """Returns the members that the message matches."""
        values = {(name, type_of(value)): value for name, value in message.items()}
        # Members that constrain an attribute which the message lacks, or has with another value.
        excluded = 0
        for attribute, index in self._attributes.items():
            if attribute not in values:
                excluded |= index.members
        for attribute, value in values.items():
            present = self._attributes.get(attribute)
            if present is not None:
                excluded |= present.members & ~self._allowing(attribute[0], present, value)
        return self.members & ~excluded

    def _allowing(self, name: str, index: AttributeIndex, value: Value) -> Bits:
        """The members that constrain an attribute and allow a value."""
        key = key_of(value)
        in_range = index.containing(key)
        found = in_range & ~index.irregular
        for number in numbers_in(in_range & index.irregular):
            if self.filter(number).attributes[name].contains(value, key):
                found |= 1 << number
        return found
