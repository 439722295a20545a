"""Segments: an immutable index over filters, except that filters can be removed from it.

Equal filters are one row, with the interfaces of each. Rows are in the nodes of a tree (`tree.py`), of which
a message visits those whose bits it has. Of the rows of a node, eight bytes are compared first: those of a
node are consecutive in memory, and exclude nearly every row.

The rows that match most interfaces are compared first, with every message, so that the search can end early.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from router.matching.bloom.layout import (
    LIST,
    BitTable,
    Part,
    kernel,
)
from router.matching.bloom.tree import count_bits, grown, picked
from router.native.compiler import Array
from router.native.memory import address_of, trailing_zeros, without_lowest

#: The number of rows that are compared with every message, at most.
_POPULAR = 128
_Ints = npt.NDArray[np.int32]
_Words = npt.NDArray[np.uint64]


class Segment:
    """An index over a table whose interfaces are dense numbers.

    Attributes:
        parts: int64 [Part.SIZE], the row that compiled code reads; the segment owns the arrays to which it
            refers.
        interface, position: see `router.matching.common.filters.Segment`.
    """

    def __init__(self, table: BitTable) -> None:
        filters, words = table.rows.shape
        order = np.argsort(_digests(table.rows), kind="stable")
        ordered = table.rows[order]
        is_new = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
        first_filter = np.flatnonzero(is_new)
        interfaces = np.diff(first_filter, append=filters)
        distinct = ordered[first_filter]
        popular = _popular(distinct, interfaces)
        number = int(popular.sum())
        tree_order, bit, node = grown(distinct, np.flatnonzero(~popular))
        row_order = np.concatenate([np.flatnonzero(popular), tree_order])
        node[:, LIST] += number
        interfaces = interfaces[row_order]
        start = np.concatenate([[0], np.cumsum(interfaces)])
        within = np.arange(filters) - np.repeat(start[:-1], interfaces)
        order = order[np.repeat(first_filter[row_order], interfaces) + within]
        self.position: _Ints = np.empty(filters, np.int32)
        self.position[order] = np.arange(filters, dtype=np.int32)
        self.interface: _Ints = table.interface[order]
        self._rows = _aligned(distinct, row_order)
        self._start: _Ints = start.astype(np.int32)
        self._arrays = {
            Part.ROWS: self._rows,
            Part.PICKED: picked(self._rows, node),
            Part.START: self._start,
            Part.INTERFACE: self.interface,
            Part.BIT: bit,
            Part.NODE: node,
        }
        self.parts = np.zeros(Part.SIZE, np.int64)
        for part, array in self._arrays.items():
            self.parts[part] = address_of(array)
        self.parts[Part.WORDS], self.parts[Part.POPULAR] = words, number
        #: The nodes of the tree.
        self.nodes = len(bit)

    @property
    def nbytes(self) -> int:
        """The memory of the arrays, in bytes."""
        own = self.position.nbytes + self.parts.nbytes
        return int(own + sum(array.nbytes for array in self._arrays.values()))

    def table(self, postings: npt.NDArray[np.int64]) -> BitTable:
        """Returns the filters of some postings (ascending), in their order."""
        row = np.searchsorted(self._start, postings, side="right") - 1
        return BitTable(self._rows[row], self.interface[postings])


def _popular(rows: _Words, interfaces: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Chooses the rows that are expected to match most interfaces.

    A row is expected to match in proportion to the rows that have its rarest bit, and to those that have its
    second rarest.

    Args:
        rows: distinct rows.
        interfaces: the number of interfaces of each.
    """
    if len(rows) <= _POPULAR:
        return np.ones(len(rows), np.bool_)
    expected = interfaces * _commonness(rows)
    chosen = np.zeros(len(rows), np.bool_)
    chosen[np.argpartition(expected, -_POPULAR)[-_POPULAR:]] = True
    return chosen


def _aligned(rows: _Words, order: npt.NDArray[np.int64]) -> _Words:
    """Returns rows in an order, the first at the start of a cache line."""
    room = np.empty(rows.size + 8, np.uint64)
    skip = -address_of(room) % 64 // 8
    aligned = room[skip : skip + rows.size].reshape(rows.shape)
    np.take(rows, order, axis=0, out=aligned)
    return aligned


@kernel
def _commonness(rows: Array) -> npt.NDArray[np.float64]:
    """Returns, for each row, the product of the numbers of rows that have its two rarest bits."""
    filters, words = rows.shape
    counts = np.zeros(64 * words, np.int64)
    count_bits(rows, np.arange(filters), 0, filters, 1, counts)
    found = np.empty(filters, np.float64)
    for number in range(filters):
        first = second = np.int64(filters)
        for word in range(words):
            left = np.int64(rows[number, word])
            while left != 0:
                own = counts[64 * word + trailing_zeros(left)]
                left = without_lowest(left)
                if own < first:
                    first, second = own, first
                elif own < second:
                    second = own
        found[number] = float(first) * second
    return found


def _digests(rows: _Words) -> _Words:
    """Returns numbers that bring equal rows together."""
    digests = np.zeros(len(rows), np.uint64)
    for word in rows.T:
        # The constants of MurmurHash3's finalizer.
        digests = (digests ^ word) * np.uint64(0xFF51AFD7ED558CCD)
        digests ^= digests >> np.uint64(33)
    return digests
