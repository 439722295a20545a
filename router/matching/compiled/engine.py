"""The compiled engine: matching with access predicates; an update takes time that grows with the change.

The logarithmic method (Bentley and Saxe, "Decomposable searching problems", J. Algorithms 1980): the filters
added since the last message become a small segment; segments that are not several times as large as all later
segments are merged with them. Each filter is therefore copied a number of times that grows with the logarithm
of the table. A removed filter is marked, and left out by the next merge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from sys import getsizeof

import numpy as np
import numpy.typing as npt

from router.matching.columns import ColumnsBuilder, ConstraintColumns
from router.matching.compiled import CLOSED
from router.matching.compiled.matching import match
from router.matching.compiled.normal import NormalTable, normal_table
from router.matching.compiled.segment import Segment
from router.matching.compiled.segments import merged_table, working_memory
from router.matching.engines import Matcher
from router.native import address_of
from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type
from router.wire.message import encode_message

#: Memory of cached sets, in bytes; beyond it, the cache is cleared.
_KEPT_BYTES = 16 * 1024 * 1024
#: Memory of two numbers as objects, in bytes.
_NUMBERS = 64
#: Approximate memory of a set apart from its array, in bytes.
_OVERHEAD = 500


@dataclass(frozen=True, slots=True)
class Asked:
    """A set of interfaces that messages are matched against.

    Attributes:
        open: uint8 [dense numbers], see `matching.match`; the interfaces to be matched have filters.
        address: the address of `open`.
        count: the number of interfaces of the set that have filters.
    """

    open: npt.NDArray[np.uint8]
    address: int
    count: int


class Interfaces:
    """Dense numbers, from 1, of the interfaces that have filters; 0 is no interface.

    Attributes:
        dense: interface -> dense number.
    """

    def __init__(self) -> None:
        self.dense: dict[int, int] = {}
        self._interface: list[int] = [0]
        self._free: list[int] = []
        self._asked: dict[frozenset[int] | None, Asked] = {}
        self._kept = 0

    @property
    def room(self) -> int:
        """A number above all dense numbers."""
        return len(self._interface)

    def add(self, interface: int) -> None:
        """Assigns a dense number to an interface that has none."""
        if self._free:
            dense = self._free.pop()
            self._interface[dense] = interface
        else:
            dense = len(self._interface)
            self._interface.append(interface)
        self.dense[interface] = dense
        self._forget_sets()

    def remove(self, interface: int) -> int:
        """Removes an interface, whose filters the segments no longer have; returns its number."""
        dense = self.dense.pop(interface)
        self._free.append(dense)
        self._forget_sets()
        return dense

    def asked(self, among: frozenset[int] | None) -> Asked:
        """Returns a set of interfaces for compiled code; None stands for all interfaces."""
        known = self._asked.get(among)
        if known is not None:
            return known
        size = len(self._interface)
        open_ = np.full(size, CLOSED, np.uint8)
        chosen = self.dense.values() if among is None else map(self.dense.get, among)
        numbers = [dense for dense in chosen if dense is not None]
        open_[[0, *numbers]] = 0
        asked = Asked(open_, address_of(open_), len(numbers))
        self._kept += size + _OVERHEAD
        if self._kept > _KEPT_BYTES:
            self._forget_sets()
        self._asked[among] = asked
        return asked

    def names(self, dense: list[int]) -> frozenset[int]:
        """Returns the interfaces with these dense numbers."""
        interface = self._interface
        return frozenset([interface[number] for number in dense])

    @property
    def nbytes(self) -> int:
        objects = getsizeof(self.dense) + getsizeof(self._interface) + _NUMBERS * len(self._interface)
        return self._kept + objects

    def _forget_sets(self) -> None:
        self._asked.clear()
        self._kept = 0


_Longs = npt.NDArray[np.int64]
_NONE: frozenset[int] = frozenset()
#: Steps of a bounded search, of some 10 ns each, and of a search without a bound.
MOST_STEPS, UNBOUNDED = 300_000, 2**62
#: A segment is merged with the later segments if it has fewer than this many times as many filters as they
#: have.
_RATIO = 4
#: The number of a filter that is never removed by itself.
_ANONYMOUS = -1


@dataclass(slots=True, eq=False)
class _Kept:
    """A segment, the number of the filter of each posting, and how many of the filters were removed."""

    segment: Segment
    numbers: _Longs
    gone: int = 0

    @property
    def living(self) -> int:
        return len(self.numbers) - self.gone


class CompiledMatcher(Matcher):
    """See `Matcher`; filters of an interface are distinguished by their identity.

    A burst of changes between two messages is one change.

    Attributes:
        interfaces: the dense numbers of the interfaces that have filters.
        address: the address of the row by which compiled code finds the segments (`matching.TABLE_SEARCH`).
            A change of the table changes it.
    """

    def __init__(self) -> None:
        self._steps = UNBOUNDED
        self._memory = working_memory()
        self._clear()

    def bound(self) -> None:
        self._steps = MOST_STEPS
        self._clear()

    def _clear(self) -> None:
        self.interfaces = Interfaces()
        #: Interface -> identity of a filter -> the filter and its number (None: not in a segment yet).
        self._held: dict[int, dict[int, tuple[Filter, int | None]]] = {}
        #: Interfaces of a loaded table, whose filters only the segments store.
        self._loaded: set[int] = set()
        #: Interfaces and identities of filters that are not in a segment yet.
        self._unsynced: dict[tuple[int, int], None] = {}
        #: The oldest and largest first.
        self._segments: list[_Kept] = []
        #: By number of a filter: index of its segment, and its posting there.
        self._places: _Longs = np.zeros((2, 64), np.int64)
        self._numbers = 0
        self._free: list[int] = []
        self._point()

    # The table.

    def change(self, interface: int, gone: Iterable[Filter], added: Iterable[Filter]) -> None:
        """See `Matcher`.

        Raises:
            ValueError: the filters of the interface were loaded with a table (`load`), without objects.
        """
        if interface in self._loaded:
            raise ValueError(f"interface {interface}: its filters are not known one by one")
        held = self._held.get(interface, {})
        for filter_ in gone:
            self._take_out(interface, key := id(filter_), held.pop(key)[1])
        for filter_ in added:
            if (key := id(filter_)) not in held:
                held[key] = filter_, None
                self._unsynced[interface, key] = None
        if not held:
            self.remove(interface)
        elif interface not in self._held:
            self._held[interface] = held
            self.interfaces.add(interface)

    def remove(self, interface: int) -> None:
        if interface in self._loaded:
            self._loaded.discard(interface)
            dense = self.interfaces.remove(interface)
            for kept in self._segments:
                own = np.flatnonzero(kept.segment.interface == dense)
                kept.segment.interface[own] = 0
                kept.gone += len(own)
        elif (held := self._held.pop(interface, None)) is not None:
            for key, (_, number) in held.items():
                self._take_out(interface, key, number)
            self.interfaces.remove(interface)

    def _take_out(self, interface: int, key: int, number: int | None) -> None:
        if number is None:
            del self._unsynced[interface, key]
        else:
            index, position = self._places[:, number]
            kept = self._segments[index]
            kept.segment.interface[position] = 0
            kept.numbers[position] = _ANONYMOUS
            kept.gone += 1
            self._free.append(number)

    def load(self, table: ConstraintColumns) -> None:
        """Replaces the whole content by a table, without an object for each constraint."""
        interfaces, counts = np.unique(table.interface, return_counts=True)
        normal = normal_table(table, np.repeat(np.arange(1, len(interfaces) + 1, dtype=np.int32), counts))
        self._clear()
        for interface in interfaces.tolist():
            self._loaded.add(interface)
            self.interfaces.add(interface)
        self._append(normal, np.full(table.filters, _ANONYMOUS, np.int64))

    def _sync(self) -> None:
        """Makes a segment of the filters added since the last call, and merges the segments that are due."""
        if not self._unsynced:
            return
        columns = ColumnsBuilder()
        numbers, dense = list[int](), list[int]()
        for interface, key in self._unsynced:
            filter_, _ = self._held[interface][key]
            self._held[interface][key] = filter_, (number := self._new_number())
            columns.add(0, filter_)
            numbers.append(number)
            dense.append(self.interfaces.dense[interface])
        self._unsynced.clear()
        table = normal_table(columns.build(), np.array(dense, np.int32))
        self._append(table, np.array(numbers, np.int64))

    def _new_number(self) -> int:
        if self._free:
            return self._free.pop()
        if self._numbers == self._places.shape[1]:
            self._places = np.concatenate([self._places, np.zeros_like(self._places)], axis=1)
        self._numbers += 1
        return self._numbers - 1

    def _append(self, table: NormalTable, numbers: _Longs) -> None:
        """Adds filters as a new segment, and merges the segments that are due.

        Args:
            table: the filters.
            numbers: int64 [F], the number of each filter, or `_ANONYMOUS`.
        """
        self._memory.fit_interfaces(self.interfaces.room)
        self._add_segment(table, numbers)
        while (first := self._due()) is not None:
            due = self._segments[first:]
            living = [(kept.segment, np.flatnonzero(kept.segment.interface)) for kept in due]
            numbers = np.concatenate([kept.numbers[own] for kept, (_, own) in zip(due, living, strict=True)])
            del self._segments[first:]
            if len(numbers):
                self._add_segment(merged_table(living), numbers)
        self._point()

    def _due(self) -> int | None:
        """Returns the index of the first segment to merge, with all later segments; None: there is none.

        A segment of which more than half was removed is made a second time, too.
        """
        for index, kept in enumerate(self._segments):
            if kept.gone > kept.living:
                return index
        first, living = len(self._segments), 0
        while first and (not living or self._segments[first - 1].living < _RATIO * living):
            first -= 1
            living += max(1, self._segments[first].living)
        return first if first < len(self._segments) - 1 else None

    def _add_segment(self, table: NormalTable, numbers: _Longs) -> None:
        segment = Segment(table)
        self._memory.fit_segment(segment.slots, segment.groups)
        ordered = numbers[segment.order]
        known = np.flatnonzero(ordered != _ANONYMOUS)
        self._places[0, ordered[known]] = len(self._segments)
        self._places[1, ordered[known]] = known
        self._segments.append(_Kept(segment, ordered))

    def _point(self) -> None:
        """Makes the row that compiled code reads."""
        addresses = [address_of(kept.segment.parts) for kept in self._segments]
        self._row = np.array([self._memory.address, self._steps, len(addresses), *addresses], np.int64)
        self.address = address_of(self._row)

    @property
    def nbytes(self) -> int:
        """The memory of the table and its index, in bytes, without filters that callers passed as objects."""
        objects = sum(150 * len(held) for held in self._held.values())
        objects += getsizeof(self._loaded)
        segments = sum(kept.segment.nbytes + kept.numbers.nbytes for kept in self._segments)
        return self._places.nbytes + segments + self.interfaces.nbytes + objects

    # Matching.

    def match(self, message: Message, among: Collection[int] | None = None) -> frozenset[int]:
        return self._match(encode_message(message), among, 1) or _NONE

    def match_encoded(self, body: bytes, among: Collection[int] | None = None) -> frozenset[int] | None:
        return self._match(body, among, 0)

    def _match(self, body: bytes, among: Collection[int] | None, trusted: int) -> frozenset[int] | None:
        self._sync()
        asked = self.interfaces.asked(among if among is None else frozenset(among))
        memory = self._memory
        if len(body) > memory.body:
            memory.fit_body(len(body))
        number = match(body, self.address, asked.address, asked.count, trusted)
        memory.shrink()
        if number <= 0:
            return None if number else _NONE
        return self.interfaces.names(memory.found[:number].tolist())

    # For compiled code that matches messages itself (`matching.match_at`).

    def lay_out(self) -> Mapping[int, int]:
        """Applies the changes that were collected; returns interface -> dense number.

        The numbers are valid until the next change of a predicate.
        """
        self._sync()
        return self.interfaces.dense

    @property
    def body_room(self) -> int:
        """The length in bytes of the longest message that compiled code may match."""
        return self._memory.body


def warm() -> None:
    """Loads the machine code, or compiles it (within a minute), and tests it on a small table.

    Raises:
        RuntimeError: an answer is wrong.
    """
    matcher = CompiledMatcher()
    wants = Predicate((Filter((Constraint("a", Type.STRING, Operator.SUBSTRING, "b"),)),))
    rest = Predicate((Filter((Constraint("c", Type.DOUBLE, Operator.LT, 1.0),)),))
    answers = []
    message = Message({"a": "abc", "c": 0.5, "d": True})
    for interface, predicate in ((1, wants), (2, rest), (1, rest)):
        matcher.set_predicate(interface, predicate)
        answers.append(matcher.match(message))
    if answers != [{1}, {1, 2}, {1, 2}]:
        raise RuntimeError(f"compiled matching gave {answers}")
