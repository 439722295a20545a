"""Matching by counting satisfied constraints: the algorithm of the forwarding papers, whole, in plain Python.

Source: Carzaniga and Wolf, "Forwarding in a content-based network", SIGCOMM 2003, and the slides on it. Each
attribute of the message is looked up in the index of constraints on its name and type; each satisfied
constraint adds one to the count of every filter that it is part of; a filter whose count reaches its number
of constraints matches, and with it its interface, of which nothing more is evaluated. Before that, the
selectivity table excludes interfaces; a Bloom filter of its attributes passes over a filter that the message
cannot match. Unlike the paper's table, which is rebuilt, this one is changed in place, by the difference
between an interface's old and new predicate. Ours keeps the type with an attribute's name throughout, as the
index does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from zlib import crc32

from router.matching.counting.index import ConstraintIndex
from router.matching.counting.links import Links
from router.matching.counting.options import CountingOptions, parse_options
from router.matching.counting.selectivity import Attribute, SelectivityTable
from router.matching.counting.strings import StringIndex
from router.predicates.model import Constraint, Filter, Message, Predicate, Type, type_of
from router.predicates.semantics import matches_filter

#: The index finds the satisfied constraints of all interfaces. Where fewer than one filter in this many is
#: asked for, evaluating those directly is faster (measured: 0.5 us a filter against 0.04 us).
_DIRECT_SHARE = 12
#: Bits of a filter's Bloom filter: two digits of a Python integer.
_BLOOM_BITS = 60


class CountingMatcher:
    """The counting algorithm over a constraint index.

    Args:
        options: which optimisations are on.
    """

    def __init__(self, options: CountingOptions | None = None) -> None:
        self._options = options or CountingOptions()
        self._indexes: dict[Attribute, ConstraintIndex] = {}
        self._selectivity = SelectivityTable(self._options.rounds) if self._options.rounds else None
        #: For each interface, its filters and the number that each has in the index.
        self._filters: dict[int, dict[Filter, int]] = {}
        #: By filter number: its interface, and how many different constraints it has.
        self._interface: list[int] = []
        self._size: list[int] = []
        self._free: list[int] = []
        #: Interfaces with a filter without constraints: they match every message.
        self._always: set[int] = set()

    def set_predicate(self, interface: int, predicate: Predicate) -> None:
        """See `Matcher`."""
        new = dict.fromkeys(predicate)
        gone = [filter_ for filter_ in self._filters.get(interface, ()) if filter_ not in new]
        self.change(interface, gone, new)

    def change(self, interface: int, gone: Iterable[Filter], added: Iterable[Filter]) -> None:
        """See `ChangeMatcher`."""
        held = self._filters.setdefault(interface, {})
        for filter_ in gone:
            self._drop(interface, filter_)
        for filter_ in added:
            if filter_ not in held:
                self._add(interface, filter_)

    def remove(self, interface: int) -> None:
        """See `Matcher`."""
        for filter_ in list(self._filters.get(interface, ())):
            self._drop(interface, filter_)
        self._filters.pop(interface, None)

    def match(self, message: Message, among: Collection[int] | None = None) -> frozenset[int]:
        """See `Matcher`. What `among` leaves out is the papers' broadcast exclusion set."""
        #: Interfaces of which nothing (more) is to be found out.
        excluded = set() if among is None else self._filters.keys() - set(among)
        matched = self._always - excluded
        excluded |= self._always
        attributes = {(name, type_of(value)): value for name, value in message.items()}
        if self._selectivity is not None:
            self._selectivity.exclude(attributes, excluded)
        if self._options.direct and 2 * len(excluded) >= len(self._filters):
            open_ = self._filters.keys() - excluded
            asked = sum(len(self._filters[interface]) for interface in open_)
            if asked * _DIRECT_SHARE < self._in_use:
                matched |= {
                    i for i in open_ if any(matches_filter(filter_, message) for filter_ in self._filters[i])
                }
                return frozenset(matched)
        satisfied = [
            links
            for attribute, value in attributes.items()
            if (index := self._indexes.get(attribute)) is not None
            for links in index.satisfied(value)
        ]
        matched |= self._singles(satisfied, excluded)
        if len(excluded) < len(self._filters):
            missing = 0
            if self._options.bloom:
                missing = -1
                for attribute in attributes:
                    missing &= ~_bit(attribute)
            matched |= self._count(satisfied, excluded, missing)
        return frozenset(matched)

    def _singles(self, satisfied: list[Links], excluded: set[int]) -> set[int]:
        """Interfaces not in `excluded` with a filter of one constraint, which is satisfied.

        With the short circuit, adds them to `excluded`.
        """
        matched: set[int] = set()
        for links in satisfied:
            if found := [interface for interface in links.single if interface not in excluded]:
                matched.update(found)
                if self._options.short_circuit:
                    excluded.update(found)
                    if len(excluded) == len(self._filters):
                        break
        return matched

    def _count(self, satisfied: list[Links], excluded: set[int], missing: int) -> set[int]:
        """Interfaces not in `excluded` with a filter of which all constraints are among those satisfied.

        With the short circuit, adds them to `excluded`. `missing` has the bits of the Bloom filter that no
        attribute of the message sets; 0 lets every filter be counted.
        """
        matched: set[int] = set()
        counts: dict[int, int] = {}
        size_of, interface_of, short_circuit = self._size, self._interface, self._options.short_circuit
        for links in satisfied:
            for number, bloom in links.counted.items():
                if bloom & missing:
                    continue
                interface = interface_of[number]
                if interface in excluded:
                    continue
                count = counts.get(number, 0) + 1
                if count == size_of[number]:
                    matched.add(interface)
                    if short_circuit:
                        excluded.add(interface)
                        if len(excluded) == len(self._filters):
                            return matched
                counts[number] = count
        return matched

    @property
    def _in_use(self) -> int:
        """How many filters there are."""
        return len(self._size) - len(self._free)

    def _add(self, interface: int, filter_: Filter) -> None:
        constraints = set(filter_)
        attributes = {_attribute(constraint) for constraint in constraints}
        bloom = 0
        for attribute in attributes:
            bloom |= _bit(attribute)
        if self._free:
            number = self._free.pop()
            self._interface[number], self._size[number] = interface, len(constraints)
        else:
            number = len(self._size)
            self._interface.append(interface)
            self._size.append(len(constraints))
        self._filters[interface][filter_] = number
        if not constraints:
            self._always.add(interface)
        for constraint in constraints:
            links = self._index(constraint).add(constraint)
            if self._is_single(constraints):
                links.add_single(interface)
            else:
                links.counted[number] = bloom
        if self._selectivity is not None:
            self._selectivity.add(interface, attributes)

    def _drop(self, interface: int, filter_: Filter) -> None:
        number = self._filters[interface].pop(filter_)
        constraints = set(filter_)
        if not constraints:
            self._always.discard(interface)
        for constraint in constraints:
            index = self._index(constraint)
            links = index.find(constraint)
            if self._is_single(constraints):
                links.drop_single(interface)
            else:
                del links.counted[number]
            if not links:
                index.drop(constraint)
                if not len(index):
                    del self._indexes[_attribute(constraint)]
        self._free.append(number)
        if self._selectivity is not None:
            self._selectivity.drop(interface, {_attribute(constraint) for constraint in constraints})

    def _is_single(self, constraints: set[Constraint]) -> bool:
        return self._options.single and len(constraints) == 1

    def _index(self, constraint: Constraint) -> ConstraintIndex:
        attribute = _attribute(constraint)
        index = self._indexes.get(attribute)
        if index is None:
            index = StringIndex() if constraint.type is Type.STRING else ConstraintIndex()
            self._indexes[attribute] = index
        return index


def _attribute(constraint: Constraint) -> Attribute:
    return constraint.name, constraint.type


@lru_cache(maxsize=4096)
def _bit(attribute: Attribute) -> int:
    """The bit of an attribute in Bloom filters: one hash function, as simple as the slides have it."""
    name, kind = attribute
    return 1 << (crc32(name.encode(), kind) % _BLOOM_BITS)


def make(options: str) -> CountingMatcher:
    """See `router.matching.factory.EngineFactory`."""
    return CountingMatcher(parse_options(options)) if options else CountingMatcher()
