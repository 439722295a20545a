"""The fast engine for sets of bits: a tree of their most frequent bits, in segments."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from sys import getsizeof

import numpy as np

from router.matching.bloom.matching import match
from router.matching.bloom.scratch import working_memory
from router.matching.bloom.segment import LAYOUT, Segment
from router.matching.bloom.table import BitTable, check_change, check_length, rows_of, words_of
from router.matching.common.interfaces import Interfaces
from router.matching.common.segments import ANONYMOUS, Segments

_NONE: frozenset[int] = frozenset()
#: Words of the filters that wait for a message; more are put into a segment.
_COLLECTED = 4_096
#: The filters of an interface: filter -> its number (None: not in a segment yet).
_Held = dict[bytes, int | None]


class TreeMatcher:
    """A table of filters by interface, and the interfaces with a filter that is a subset of a message.

    A filter is given as the bytes of its set; an interface has a filter at most once. Changes are collected
    and applied when a message is matched, so that a burst of changes is one change. A segment is made of many
    new filters as they come: what is left for a message is little.
    """

    def __init__(self, bits: int) -> None:
        self._bits, self._words = bits, words_of(bits)
        self._memory = working_memory()
        self._clear()

    def _clear(self) -> None:
        self._interfaces = Interfaces()
        self._segments: Segments[BitTable, Segment] = Segments(LAYOUT)
        self._held: dict[int, _Held] = {}
        #: Interfaces of a loaded table, whose filters only the segments store.
        self._loaded: set[int] = set()
        #: By interface, its filters that are not in a segment yet.
        self._unsynced: dict[int, dict[bytes, None]] = {}

    # The table.

    def set_filters(self, interface: int, filters: Iterable[bytes]) -> None:
        """Sets the filters of an interface, in place of earlier filters.

        Raises:
            ValueError: a filter has another length than m/8 bytes; the earlier filters stay.
        """
        new = {check_length(filter_, self._bits): None for filter_ in filters}
        if interface in self._loaded:
            self._forget_loaded(interface)
        old = self._held.get(interface, {})
        self.change(interface, [filter_ for filter_ in old if filter_ not in new], new)

    def change(self, interface: int, gone: Iterable[bytes], added: Iterable[bytes]) -> None:
        """Removes filters from an interface and adds others.

        Raises:
            ValueError: a filter has another length than m/8 bytes, the interface lacks a filter of `gone`, or
                its filters were loaded with a table. The table is unchanged then.
        """
        if interface in self._loaded:
            raise ValueError(f"interface {interface}: its filters are not known one by one")
        held = self._held.get(interface, {})
        removed, new = check_change(interface, held, gone, added, self._bits)
        taken = []
        for filter_ in removed:
            taken.append(held.pop(filter_))
            if taken[-1] is None:
                del self._unsynced[interface][filter_]
        self._take_out(taken)
        if came := [filter_ for filter_ in new if filter_ not in held]:
            held.update(dict.fromkeys(came))
            self._unsynced.setdefault(interface, {}).update(dict.fromkeys(came))
        if not held:
            self.remove(interface)
        elif interface not in self._held:
            self._held[interface] = held
            self._interfaces.add(interface)
        if self._words * sum(map(len, self._unsynced.values())) > _COLLECTED:
            self._sync()

    def remove(self, interface: int) -> None:
        """Removes an interface; no effect if it has no filter."""
        if interface in self._loaded:
            self._forget_loaded(interface)
        held = self._held.pop(interface, None)
        if held is not None:
            self._take_out(list(held.values()))
            self._unsynced.pop(interface, None)
            self._interfaces.remove(interface)

    def load(self, table: BitTable) -> None:
        """Replaces the whole content by `table`.

        Filters of a loaded interface are removed with the interface, or replaced by `set_filters`.

        Raises:
            ValueError: the rows have another number of words than m bits need.
        """
        if table.rows.shape[1] != self._words:
            raise ValueError(f"rows of {table.rows.shape[1]} words; expected {self._words}")
        self.finish_merges()
        self._clear()
        numbers, dense = np.unique(table.interface, return_inverse=True)
        self._interfaces.add_all(numbers)
        self._memory.fit_interfaces(len(numbers) + 1)
        self._loaded = set(numbers.tolist())
        own = BitTable(table.rows, (dense + 1).astype(np.int32))
        self._segments.add(own, np.full(table.filters, ANONYMOUS, np.int64), self._interfaces.retired)

    def _forget_loaded(self, interface: int) -> None:
        self._loaded.discard(interface)
        self._segments.retire(self._interfaces.retire(interface))

    def _take_out(self, numbers: Iterable[int | None]) -> None:
        self._segments.take_out(number for number in numbers if number is not None)

    def _sync(self) -> None:
        """Makes a segment of the filters added since the last one; starts the merges that are due."""
        filters: list[bytes] = []
        numbers, dense = [], []
        for interface, added in self._unsynced.items():
            held, own = self._held[interface], self._interfaces[interface]
            for filter_ in added:
                held[filter_] = number = self._segments.number()
                filters.append(filter_)
                numbers.append(number)
                dense.append(own)
        self._unsynced.clear()
        if filters:
            self._memory.fit_interfaces(len(self._interfaces.retired))
            table = BitTable(rows_of(filters, self._bits), np.array(dense, np.int32))
            self._segments.add(table, np.array(numbers, np.int64), self._interfaces.retired)

    # Matching.

    def match(self, bits: bytes, among: Collection[int] | None = None) -> frozenset[int]:
        """Returns the interfaces with a filter B_f that is a subset of B_m.

        Args:
            bits: B_m, m/8 bytes.
            among: the interfaces to consider; None for all.

        Raises:
            ValueError: `bits` has another length.
        """
        check_length(bits, self._bits)
        if self._unsynced:
            self._sync()
        elif self._segments.merging:
            self._segments.settle(self._interfaces.retired)
        asked = self._interfaces.asked(among if among is None else frozenset(among))
        if len(bits) < 8 * self._words:
            bits = bits.ljust(8 * self._words, b"\0")
        number = match(bits, self._segments.address, asked.address, asked.count)
        if not number:
            return _NONE
        return self._interfaces.names(self._memory.found[:number].tolist())

    # Observation.

    @property
    def empty(self) -> bool:
        """Whether no interface has a filter."""
        return not (self._held or self._loaded)

    @property
    def nbytes(self) -> int:
        """The memory of the table and its index, in bytes, without filters that callers passed as objects."""
        objects = sum(getsizeof(held) for held in self._held.values())
        return self._segments.nbytes + self._interfaces.nbytes + objects

    @property
    def merging(self) -> bool:
        """Whether a thread is merging segments."""
        return self._segments.merging

    def finish_merges(self) -> None:
        """Waits for the thread that merges segments.

        Measurements need this; matching does not.
        """
        if self._unsynced:
            self._sync()
        self._segments.wait(self._interfaces.retired)


def warm() -> None:
    """Loads the machine code, or compiles it, and tests it on a small table.

    Raises:
        RuntimeError: an answer is wrong.
    """
    matcher = TreeMatcher(64)
    answers = []
    for interface, filter_ in ((1, 0b11), (2, 0b100), (1, 0b100)):
        matcher.change(interface, (), [filter_.to_bytes(8, "little")])
        answers.append(matcher.match(0b101.to_bytes(8, "little")))
    if answers != [set(), {2}, {1, 2}]:
        raise RuntimeError(f"matching of sets of bits gave {answers}")
