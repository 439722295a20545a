"""Matching by counting satisfied constraints: the complete algorithm of the forwarding papers, in Python.

Source: Carzaniga and Wolf, "Forwarding in a content-based network", SIGCOMM 2003, and the slides on it. Each
attribute of the message is looked up in the index of constraints on its name and type. Each satisfied
constraint increments the count of every filter that contains it. A filter whose count reaches its number of
constraints matches, and so does its interface, which is not evaluated further. Before that, the selectivity
table excludes interfaces, and Bloom filters of attributes exclude filters that the message cannot match.

The papers' table is rebuilt at each change; this table is changed in place, by the difference between the old
and the new predicate of an interface. Selectivity table and Bloom filters contain the type of an attribute
along with its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any
from zlib import crc32

from router.matching.counting.index import Attribute, ConstraintIndex, Links, SelectivityTable, StringIndex
from router.matching.engines import Matcher
from router.predicates.model import Constraint, Filter, Message, Predicate, Type, matches_filter, type_of

#: The index finds the satisfied constraints of all interfaces. If fewer than one filter in this many is to be
#: matched, direct evaluation is faster (measured: 0.5 us a filter against 0.04 us).
_DIRECT_SHARE = 12
#: Bits of the Bloom filter of a filter: two digits of a Python integer.
_BLOOM_BITS = 60

_SWITCHES = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class CountingOptions:
    """The optimisations of the counting engine.

    None of them changes an answer.

    Attributes:
        rounds: the number of pre-processing rounds: attributes of the selectivity table that are considered
            (SIGCOMM 2003 paper, which has 10; slides, "Selectivity Preprocessing"). 0: no table. With this
            index, the table costs more time than it saves (docs/explanation/matching.md).
        bloom: a Bloom filter of attributes excludes filters with an attribute that the message lacks, before
            anything is counted (slides, "Bloom Filters").
        short_circuit: an interface that has matched is not evaluated further (paper).
        single: filters of one constraint are not counted: their interfaces match at once (not in the papers).
        direct: if few filters are to be matched, they are evaluated without the index (not in the papers).
    """

    rounds: int = 0
    bloom: bool = True
    short_circuit: bool = True
    single: bool = True
    direct: bool = True


def parse_options(text: str) -> CountingOptions:
    """Returns the options of ``NAME=VALUE,...``; absent ones have their defaults.

    Raises:
        ValueError: an option is unknown, or its value is not valid.
    """
    known = {field.name: type(field.default) for field in fields(CountingOptions)}
    chosen: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in known:
            raise ValueError(f"unknown option {name!r} of the counting engine; expected {', '.join(known)}")
        if known[name] is bool:
            if value not in _SWITCHES:
                raise ValueError(f"option {name}: expected on or off, found {value!r}")
            chosen[name] = _SWITCHES[value]
        else:
            if not (value.isascii() and value.isdecimal()):
                raise ValueError(f"option {name}: expected a number of rounds, found {value!r}")
            chosen[name] = int(value)
    return CountingOptions(**chosen)


class CountingMatcher(Matcher):
    """The counting algorithm over a constraint index.

    Args:
        options: the optimisations to use.
    """

    def __init__(self, options: CountingOptions | None = None) -> None:
        self._options = options or CountingOptions()
        self._indexes: dict[Attribute, ConstraintIndex] = {}
        self._selectivity = SelectivityTable(self._options.rounds) if self._options.rounds else None
        #: For each interface, its filters and their numbers in the index.
        self._filters: dict[int, dict[Filter, int]] = {}
        #: By number of a filter: its interface, and the number of its distinct constraints.
        self._interface: list[int] = []
        self._size: list[int] = []
        self._free: list[int] = []
        #: Interfaces with a filter without constraints, which match every message.
        self._always: set[int] = set()

    def set_predicate(self, interface: int, predicate: Predicate) -> None:
        """See `Matcher`."""
        new = dict.fromkeys(predicate)
        gone = [filter_ for filter_ in self._filters.get(interface, ()) if filter_ not in new]
        self.change(interface, gone, new)

    def change(self, interface: int, gone: Iterable[Filter], added: Iterable[Filter]) -> None:
        """See `Matcher`."""
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
        """See `Matcher`.

        The interfaces outside `among` are the papers' broadcast exclusion set.
        """
        # Interfaces that need no (further) evaluation.
        excluded = set() if among is None else self._filters.keys() - set(among)
        matched = self._always - excluded
        excluded |= self._always
        self._search(message, matched, excluded)
        return frozenset(matched)

    def _search(self, message: Message, matched: set[int], excluded: set[int]) -> None:
        """Adds to `matched` the interfaces not in `excluded` that a message matches; may exclude them."""
        attributes = {(name, type_of(value)): value for name, value in message.items()}
        if self._selectivity is not None:
            self._selectivity.exclude(attributes, excluded)
        if self._options.direct and 2 * len(excluded) >= len(self._filters):
            open_ = self._filters.keys() - excluded
            asked = sum(len(self._filters[interface]) for interface in open_)
            if asked * _DIRECT_SHARE < self._in_use:
                for interface in open_:
                    if any(matches_filter(filter_, message) for filter_ in self._filters[interface]):
                        matched.add(interface)
                return
        satisfied = [
            links
            for attribute, value in attributes.items()
            if (index := self._indexes.get(attribute)) is not None
            for links in index.satisfied(value)
        ]
        self._singles(satisfied, matched, excluded)
        if len(excluded) < len(self._filters):
            missing = 0
            if self._options.bloom:
                missing = -1
                for attribute in attributes:
                    missing &= ~_bit(attribute)
            self._count(satisfied, matched, excluded, missing)

    def _singles(self, satisfied: list[Links], matched: set[int], excluded: set[int]) -> None:
        """Adds to `matched` the interfaces not in `excluded` that have a satisfied filter of one constraint.

        Adds them to `excluded` if the short circuit is on.
        """
        for links in satisfied:
            if found := [interface for interface in links.single if interface not in excluded]:
                matched.update(found)
                if self._options.short_circuit:
                    excluded.update(found)
                    if len(excluded) == len(self._filters):
                        break

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
                            return
                counts[number] = count

    @property
    def _in_use(self) -> int:
        """The number of filters."""
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
    """Returns the bit of an attribute in Bloom filters; one hash function, as on the slides."""
    name, kind = attribute
    return 1 << (crc32(name.encode(), kind) % _BLOOM_BITS)


def make(options: str) -> CountingMatcher:
    """See `router.matching.engines.EngineFactory`."""
    return CountingMatcher(parse_options(options)) if options else CountingMatcher()
