"""Bit-sliced filters, for comparison.

A column for each bit says which filters have it. A filter that has a bit which the message lacks does not
match. Source: bit-sliced signature files; Goodwin et al., "BitFunnel", SIGIR 2017.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from router.matching.bloom.table import BitTable
from router.native.compiler import Array
from router.native.memory import trailing_zeros, without_lowest
from tests.bench.bit_engines.compiler import kernel
from tests.bench.bit_engines.rebuilt import RebuiltMatcher, Words

#: Words of a column that are read together: 64 filters each.
_BLOCK = 32


class SlicedMatcher(RebuiltMatcher):
    """Excludes the filters in the columns of the message's zeros, a block of 2,048 filters at a time.

    The columns of most filters come first; a block ends when no filter is left.
    """

    def _build(self, table: BitTable) -> None:
        self._interface = table.interface
        self._columns = _columns(table.rows)
        counts = np.bitwise_count(self._columns).sum((0, 2), np.int64)
        self._order = np.argsort(-counts, kind="stable").astype(np.int64)

    def _search(self, message: Words, open_: npt.NDArray[np.bool_]) -> None:
        lacks = np.unpackbits((~message).astype("<u8").view(np.uint8), bitorder="little")
        zeros = self._order[lacks[self._order] != 0]
        _exclude(self._columns, self._interface, zeros, open_)

    @property
    def nbytes(self) -> int:
        """See `TreeMatcher`."""
        return self._interface.nbytes + self._columns.nbytes + self._order.nbytes


@kernel
def _columns(rows: Array) -> npt.NDArray[np.uint64]:
    """Returns uint64 [blocks, bits, words of a block]."""
    filters, words = rows.shape
    size = 64 * _BLOCK
    columns = np.zeros(((filters + size - 1) // size, 64 * words, _BLOCK), np.uint64)
    for number in range(filters):
        block, within = number // size, number % size
        for word in range(words):
            left = np.int64(rows[number, word])
            while left != 0:
                bit = 64 * word + trailing_zeros(left)
                columns[block, bit, within >> 6] |= np.uint64(1) << np.uint64(within & 63)
                left = without_lowest(left)
    return columns


@kernel
def _exclude(columns: Array, interface: Array, zeros: Array, open_: Array) -> None:
    remaining = open_.sum()
    alive = np.empty(_BLOCK, np.uint64)
    for block in range(len(columns)):
        base = 64 * _BLOCK * block
        for word in range(_BLOCK):
            here = min(max(len(interface) - base - 64 * word, 0), 64)
            alive[word] = ~np.uint64(0) if here == 64 else (np.uint64(1) << np.uint64(here)) - np.uint64(1)
        for zero in zeros:
            some = np.uint64(0)
            for word in range(_BLOCK):
                alive[word] &= ~columns[block, zero, word]
                some |= alive[word]
            if some == np.uint64(0):
                break
        for word in range(_BLOCK):
            left = np.int64(alive[word])
            while left != 0:
                own = interface[base + 64 * word + trailing_zeros(left)]
                left = without_lowest(left)
                if open_[own]:
                    open_[own] = False
                    remaining -= 1
                    if remaining == 0:
                        return
