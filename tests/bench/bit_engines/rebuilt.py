"""The base of engines whose index is made a second time after each change: those for comparison."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt

from router.matching.bloom.table import BitTable, check_change, check_length, rows_of, words_of

Words = npt.NDArray[np.uint64]


class RebuiltMatcher(ABC):
    """Keeps the filters of each interface; see `TreeMatcher`."""

    def __init__(self, bits: int) -> None:
        self._bits, self._words = bits, words_of(bits)
        #: By interface: its filters, or its rows of a loaded table.
        self._filters: dict[int, dict[bytes, None]] = {}
        self._loaded: dict[int, Words] = {}
        self._names: list[int] = []
        self._stale = True

    @abstractmethod
    def _build(self, table: BitTable) -> None:
        """Makes the index of a table whose interfaces are the numbers from 0 on."""

    @abstractmethod
    def _search(self, message: Words, open_: npt.NDArray[np.bool_]) -> None:
        """Sets the elements of `open_` of the interfaces that match to False."""

    @property
    def empty(self) -> bool:
        """See `TreeMatcher`."""
        return not (self._filters or self._loaded)

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """See `TreeMatcher`."""

    def change(self, interface: int, gone: Iterable[bytes], added: Iterable[bytes]) -> None:
        """See `TreeMatcher`."""
        if interface in self._loaded:
            raise ValueError(f"interface {interface}: its filters are not known one by one")
        held = self._filters.get(interface, {})
        removed, new = check_change(interface, held, gone, added, self._bits)
        for filter_ in removed:
            del held[filter_]
        held.update(dict.fromkeys(new))
        if held:
            self._filters[interface] = held
        else:
            self._filters.pop(interface, None)
        self._stale = True

    def replace(self, interface: int, filters: Iterable[bytes]) -> None:
        """See `TreeMatcher`."""
        new = [check_length(filter_, self._bits) for filter_ in filters]
        self.remove(interface)
        self.change(interface, (), new)

    def remove(self, interface: int) -> None:
        """See `TreeMatcher`."""
        self._filters.pop(interface, None)
        self._loaded.pop(interface, None)
        self._stale = True

    def load(self, table: BitTable) -> None:
        """See `TreeMatcher`."""
        if table.rows.shape[1] != self._words:
            raise ValueError(f"rows of {table.rows.shape[1]} words; expected {self._words}")
        self._filters = {}
        order = np.argsort(table.interface, kind="stable")
        interfaces, starts = np.unique(table.interface[order], return_index=True)
        parts = np.split(table.rows[order], starts[1:]) if len(starts) else []
        self._loaded = dict(zip(interfaces.tolist(), parts, strict=True))
        self._stale = True

    def _rebuild(self) -> None:
        self._names = [*self._loaded, *self._filters]
        parts = [*self._loaded.values(), *(rows_of(held, self._bits) for held in self._filters.values())]
        rows = np.concatenate([np.empty((0, self._words), np.uint64), *parts])
        interface = np.repeat(np.arange(len(parts), dtype=np.int32), [len(part) for part in parts])
        self._build(BitTable(np.ascontiguousarray(rows), interface))
        self._stale = False

    def match(self, bits: bytes, among: Collection[int] | None = None) -> frozenset[int]:
        """See `TreeMatcher`."""
        message = rows_of([check_length(bits, self._bits)], self._bits)[0]
        if self._stale:
            self._rebuild()
        asked = None if among is None else set(among)
        open_ = np.array([asked is None or name in asked for name in self._names], np.bool_)
        before = open_.copy()
        if open_.any():
            self._search(message, open_)
        return frozenset(self._names[number] for number in np.flatnonzero(before & ~open_).tolist())
