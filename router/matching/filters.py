"""Filters by interface in segments: changes are collected, and applied when a message is matched.

The logarithmic method (Bentley and Saxe, "Decomposable searching problems", J. Algorithms 1980): the filters
added since the last message become a small segment; segments that are not several times as large as all later
segments are merged with them. Each filter is therefore copied a number of times that grows with the logarithm
of the table. A removed filter is marked, and left out by the next merge.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from sys import getsizeof
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from router.native import address_of

_Longs = npt.NDArray[np.int64]
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
        open: uint8 [dense numbers], 1 for the interfaces of the set that have filters.
        address: the address of `open`.
        count: the number of interfaces of the set that have filters.
    """

    open: npt.NDArray[np.uint8]
    address: int
    count: int


class Interfaces:
    """Dense numbers, from 1, of the interfaces that have filters; 0 is no interface."""

    def __init__(self) -> None:
        self._dense: dict[int, int] = {}
        self._interface: list[int] = [0]
        self._free: list[int] = []
        self._asked: dict[frozenset[int] | None, Asked] = {}
        self._kept = 0

    def __getitem__(self, interface: int) -> int:
        return self._dense[interface]

    @property
    def room(self) -> int:
        """A number above all dense numbers."""
        return len(self._interface)

    def numbers(self) -> Mapping[int, int]:
        """Interface -> dense number."""
        return self._dense

    def add(self, interface: int) -> None:
        """Assigns a dense number to an interface that has none."""
        if self._free:
            dense = self._free.pop()
            self._interface[dense] = interface
        else:
            dense = len(self._interface)
            self._interface.append(interface)
        self._dense[interface] = dense
        self._forget_sets()

    def add_all(self, interfaces: npt.NDArray[np.int32]) -> None:
        """Bulk `add` into an empty map: the numbers are 1, 2, ...

        Args:
            interfaces: sorted and unique.
        """
        self._interface = [0, *interfaces.tolist()]
        self._dense = {interface: dense for dense, interface in enumerate(self._interface) if dense}
        self._forget_sets()

    def remove(self, interface: int) -> int:
        """Removes an interface, whose filters the segments no longer have; returns its number."""
        dense = self._dense.pop(interface)
        self._free.append(dense)
        self._forget_sets()
        return dense

    def asked(self, among: frozenset[int] | None) -> Asked:
        """Returns a set of interfaces for compiled code; None stands for all interfaces."""
        known = self._asked.get(among)
        if known is not None:
            return known
        size = len(self._interface)
        open_ = np.zeros(size, np.uint8)
        chosen = self._dense.values() if among is None else map(self._dense.get, among)
        numbers = [dense for dense in chosen if dense is not None]
        open_[numbers] = 1
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
        objects = getsizeof(self._dense) + getsizeof(self._interface) + _NUMBERS * len(self._interface)
        return self._kept + objects

    def _forget_sets(self) -> None:
        self._asked.clear()
        self._kept = 0


class WorkingMemory:
    """Arrays of a search in compiled code, which grow with the largest table.

    Matching is not reentrant: a process matches in one thread, and all tables of an engine share the arrays.

    Args:
        columns: the row of the search has so many.
        answer: the column of the answer.

    Attributes:
        row: int64 [columns], the row of the search, which refers to the arrays.
        address: the address of `row`.
        found: int32, the dense numbers that the last search has found.
    """

    def __init__(self, columns: int, answer: int) -> None:
        self.row: _Longs = np.zeros(columns, np.int64)
        self.address = address_of(self.row)
        self._arrays: dict[int, npt.NDArray[np.generic]] = {}
        self._answer = answer
        self.found: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self.fit_interfaces(64)

    def fit_interfaces(self, interfaces: int) -> None:
        """Allocates memory for answers of this many interfaces."""
        if interfaces > len(self.found):
            self.found = np.empty(2 * interfaces, np.int32)
            self._put(self._answer, self.found)

    def _put(self, which: int, array: npt.NDArray[np.generic]) -> None:
        self._arrays[which] = array
        self.row[which] = address_of(array)


class Segment(Protocol):
    """An immutable index over filters, except that filters can be removed from it.

    Attributes:
        parts: the row by which compiled code finds its arrays.
        interface: int32 [F], the dense number of the interface of each posting; 0 for a removed filter.
        position: int32 [F], the number of the posting of each filter of the table that it was made of.
    """

    parts: _Longs
    interface: npt.NDArray[np.int32]
    position: npt.NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        """The memory of its arrays."""


F = TypeVar("F")
T = TypeVar("T")
S = TypeVar("S", bound=Segment)
#: A segment is merged with the later segments if it has fewer than this many times as many filters as they
#: have.
_RATIO = 4
#: The number of a filter that is never removed by itself.
_ANONYMOUS = -1
#: Memory of a number as an object, in bytes.
_NUMBER = 32


@dataclass(slots=True, eq=False)
class _Kept(Generic[S]):
    """A segment, the number of the filter of each posting, and how many of the filters were removed."""

    segment: S
    numbers: _Longs
    gone: int = 0

    @property
    def living(self) -> int:
        return len(self.numbers) - self.gone


class FilterTable(ABC, Generic[F, T, S]):
    """The filters of each interface, an interface having a filter at most once.

    A burst of changes between two messages is one change. The subclasses say what a filter (F), a table of
    filters (T) and a segment (S) are.

    Args:
        memory: of the searches.

    Attributes:
        interfaces: the dense numbers of the interfaces that have filters.
        address: the address of the row by which compiled code finds the segments: `_head`, their number, and
            the address of each. A change of the table changes it.
    """

    def __init__(self, memory: WorkingMemory) -> None:
        self._memory = memory
        self._clear()

    def _clear(self) -> None:
        self.interfaces = Interfaces()
        #: Interface -> key of a filter -> the filter and its number (None: not in a segment yet).
        self._held: dict[int, dict[Hashable, tuple[F, int | None]]] = {}
        #: Interfaces of a loaded table, whose filters only the segments store.
        self._loaded: set[int] = set()
        #: Interface -> keys of its filters that are not in a segment yet.
        self._unsynced: dict[int, dict[Hashable, None]] = {}
        #: The oldest and largest first.
        self._segments: list[_Kept[S]] = []
        #: By number of a filter: index of its segment, and its posting there.
        self._holder: _Longs = np.zeros(64, np.int64)
        self._position: _Longs = np.zeros(64, np.int64)
        self._numbers = 0
        self._free: list[int] = []
        self._point()

    @abstractmethod
    def _key(self, filter_: F) -> Hashable:
        """Returns what distinguishes a filter from the other filters of its interface."""

    @abstractmethod
    def _table(self, filters: list[F], dense: npt.NDArray[np.int32]) -> T:
        """Returns the table of some filters, and of the dense numbers of their interfaces."""

    @abstractmethod
    def _segment(self, table: T) -> S:
        """Returns the segment of a table, which the working memory fits."""

    @abstractmethod
    def _merged(self, segments: Sequence[tuple[S, _Longs]]) -> T:
        """Returns the filters of some postings (ascending) of each segment, one after the other."""

    @property
    def _head(self) -> tuple[int, ...]:
        """The numbers with which the row of the table begins."""
        return (self._memory.address,)

    def replace(self, interface: int, filters: Iterable[F]) -> None:
        """Sets the filters of an interface, in place of earlier filters."""
        if interface in self._loaded:
            self._forget_loaded(interface)
        new = {self._key(filter_): filter_ for filter_ in filters}
        old = self._held.get(interface, {})
        self.change(interface, [old[key][0] for key in old if key not in new], new.values())

    def change(self, interface: int, gone: Iterable[F], added: Iterable[F]) -> None:
        """Removes filters from an interface and adds others, in time that grows with the change.

        Args:
            interface: the interface.
            gone: filters of the interface, each once.
            added: filters to add; those that the interface has already are ignored.

        Raises:
            ValueError: the filters of the interface were loaded with a table (`load`), without objects.
        """
        if interface in self._loaded:
            raise ValueError(f"interface {interface}: its filters are not known one by one")
        held = self._held.get(interface, {})
        for filter_ in gone:
            self._take_out(interface, key := self._key(filter_), held.pop(key)[1])
        for filter_ in added:
            if (key := self._key(filter_)) not in held:
                held[key] = filter_, None
                self._unsynced.setdefault(interface, {})[key] = None
        if not held:
            self.remove(interface)
        elif interface not in self._held:
            self._held[interface] = held
            self.interfaces.add(interface)

    def remove(self, interface: int) -> None:
        """Removes an interface; no effect if it has no filter."""
        if interface in self._loaded:
            self._forget_loaded(interface)
        held = self._held.pop(interface, None)
        if held is not None:
            for key, (_, number) in held.items():
                self._take_out(interface, key, number)
            self._unsynced.pop(interface, None)
            self.interfaces.remove(interface)

    def _take_out(self, interface: int, key: Hashable, number: int | None) -> None:
        if number is None:
            del self._unsynced[interface][key]
        else:
            kept, position = self._segments[self._holder[number]], self._position[number]
            kept.segment.interface[position] = 0
            kept.numbers[position] = _ANONYMOUS
            kept.gone += 1
            self._free.append(number)

    def _load(self, table: T, interfaces: npt.NDArray[np.int32], filters: int) -> None:
        """Replaces the whole content by a table of `filters` filters.

        Args:
            interfaces: sorted and unique; their dense numbers in `table` are 1, 2, ...
        """
        self._clear()
        self.interfaces.add_all(interfaces)
        self._loaded = set(interfaces.tolist())
        self._append(table, np.full(filters, _ANONYMOUS, np.int64))

    def _forget_loaded(self, interface: int) -> None:
        self._loaded.discard(interface)
        dense = self.interfaces.remove(interface)
        for kept in self._segments:
            own = np.flatnonzero(kept.segment.interface == dense)
            kept.segment.interface[own] = 0
            kept.gone += len(own)

    def sync(self) -> None:
        """Makes a segment of the filters added since the last call, and merges the segments that are due."""
        if not self._unsynced:
            return
        filters: list[F] = []
        numbers, dense = [], []
        for interface, added in self._unsynced.items():
            held, own = self._held[interface], self.interfaces[interface]
            for key in added:
                filter_, _ = held[key]
                held[key] = filter_, (number := self._new_number())
                filters.append(filter_)
                numbers.append(number)
                dense.append(own)
        self._unsynced.clear()
        if filters:
            self._append(self._table(filters, np.array(dense, np.int32)), np.array(numbers, np.int64))

    def _new_number(self) -> int:
        if self._free:
            return self._free.pop()
        if self._numbers == len(self._position):
            self._position = np.concatenate([self._position, np.zeros_like(self._position)])
            self._holder = np.concatenate([self._holder, np.zeros_like(self._holder)])
        self._numbers += 1
        return self._numbers - 1

    def _append(self, table: T, numbers: _Longs) -> None:
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
                self._add_segment(self._merged(living), numbers)
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

    def _add_segment(self, table: T, numbers: _Longs) -> None:
        segment = self._segment(table)
        ordered = np.empty(len(numbers), np.int64)
        ordered[segment.position] = numbers
        known = np.flatnonzero(ordered != _ANONYMOUS)
        self._position[ordered[known]] = known
        self._holder[ordered[known]] = len(self._segments)
        self._segments.append(_Kept(segment, ordered))

    def _point(self) -> None:
        """Makes the row that compiled code reads."""
        addresses = [address_of(kept.segment.parts) for kept in self._segments]
        self._row = np.array([*self._head, len(addresses), *addresses], np.int64)
        self.address = address_of(self._row)

    def _asked(self, among: Collection[int] | None) -> Asked:
        """Applies the collected changes; returns the interfaces to match a message against."""
        self.sync()
        return self.interfaces.asked(among if among is None else frozenset(among))

    @property
    def empty(self) -> bool:
        """Whether no interface has a filter."""
        return not (self._held or self._loaded)

    @property
    def nbytes(self) -> int:
        """The memory of the table and its index, in bytes, without filters that callers passed as objects."""
        objects = sum(150 * len(held) for held in self._held.values())
        objects += getsizeof(self._loaded) + _NUMBER * len(self._loaded)
        segments = sum(kept.segment.nbytes + kept.numbers.nbytes for kept in self._segments)
        return self._position.nbytes + self._holder.nbytes + segments + self.interfaces.nbytes + objects

    @property
    def segments(self) -> int:
        """The number of segments."""
        return len(self._segments)
