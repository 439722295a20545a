"""Filters by interface in segments: changes are collected, and applied when a message is matched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from sys import getsizeof
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from router.matching.common.segments import ANONYMOUS, S, Segments, T
from router.native.memory import address_of

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


F = TypeVar("F")
#: Memory of a number as an object, in bytes.
_NUMBER = 32


class FilterTable(ABC, Generic[F, T, S]):
    """The filters of each interface, an interface having a filter at most once.

    A burst of changes between two messages is one change. The subclasses say what a filter (F), a table of
    filters (T) and a segment (S) are.

    Attributes:
        interfaces: the dense numbers of the interfaces that have filters.
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.interfaces = Interfaces()
        self._segments = self._no_segments()
        #: Interface -> key of a filter -> the filter and its number (None: not in a segment yet).
        self._held: dict[int, dict[Hashable, tuple[F, int | None]]] = {}
        #: Interfaces of a loaded table, whose filters only the segments store.
        self._loaded: set[int] = set()
        #: Interface -> keys of its filters that are not in a segment yet.
        self._unsynced: dict[int, dict[Hashable, None]] = {}

    @abstractmethod
    def _no_segments(self) -> Segments[T, S]:
        """Returns the segments of an empty table."""

    @abstractmethod
    def _key(self, filter_: F) -> Hashable:
        """Returns what distinguishes a filter from the other filters of its interface."""

    @abstractmethod
    def _table(self, filters: list[F], dense: npt.NDArray[np.int32]) -> T:
        """Returns the table of some filters, and of the dense numbers of their interfaces."""

    @abstractmethod
    def _fit(self, interfaces: int) -> None:
        """Makes the working memory fit answers of so many interfaces."""

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
            self._segments.take_out(number)

    def _load(self, table: T, interfaces: npt.NDArray[np.int32], filters: int) -> None:
        """Replaces the whole content by a table of `filters` filters.

        Args:
            interfaces: sorted and unique; their dense numbers in `table` are 1, 2, ...
        """
        self._clear()
        self.interfaces.add_all(interfaces)
        self._loaded = set(interfaces.tolist())
        self._fit(self.interfaces.room)
        self._segments.add(table, np.full(filters, ANONYMOUS, np.int64))

    def _forget_loaded(self, interface: int) -> None:
        self._loaded.discard(interface)
        self._segments.retire(self.interfaces.remove(interface))

    def sync(self) -> None:
        """Makes a segment of the filters added since the last call."""
        if not self._unsynced:
            return
        filters: list[F] = []
        numbers, dense = [], []
        for interface, added in self._unsynced.items():
            held, own = self._held[interface], self.interfaces[interface]
            for key in added:
                filter_, _ = held[key]
                held[key] = filter_, (number := self._segments.number())
                filters.append(filter_)
                numbers.append(number)
                dense.append(own)
        self._unsynced.clear()
        if filters:
            self._fit(self.interfaces.room)
            table = self._table(filters, np.array(dense, np.int32))
            self._segments.add(table, np.array(numbers, np.int64))

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
        return self._segments.nbytes + self.interfaces.nbytes + objects

    @property
    def segments(self) -> int:
        """The number of segments."""
        return len(self._segments)
