"""A PATRICIA trie of sets of bits, for comparison.

Source: Morrison, "PATRICIA", J. ACM 1968; tries of signatures for set containment: Luo et al., ICDE 2015.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from router.matching.bloom.table import BitTable
from router.native.compiler import I64, Array, Flag, Tuple
from router.native.memory import trailing_zeros
from tests.bench.bit_engines.compiler import callee, kernel
from tests.bench.bit_engines.rebuilt import RebuiltMatcher, Words


class PatriciaMatcher(RebuiltMatcher):
    """A binary trie over the bits of the distinct filters in ascending order, without nodes of one child.

    A node stands for the filters of equal bits before its branching bit. Its subtree of filters without the
    branching bit is always visited, the other one if the message has the bit.
    """

    def _build(self, table: BitTable) -> None:
        reverse = _reversed(table.rows)
        order = np.lexsort(reverse.T[::-1])
        rows = table.rows[order]
        new = np.ones(len(rows), np.bool_)
        new[1:] = (rows[1:] != rows[:-1]).any(1)
        begins = np.flatnonzero(new)
        self._rows = np.ascontiguousarray(rows[begins])
        self._interface = table.interface[order]
        self._start = np.append(begins, len(rows)).astype(np.int32)
        self._branch, self._row, self._with = _trie(self._rows)

    def _search(self, message: Words, open_: npt.NDArray[np.bool_]) -> None:
        if len(self._rows):
            arrays = self._rows, self._start, self._interface, self._branch, self._row, self._with
            _walk(*arrays, message, open_)

    @property
    def nbytes(self) -> int:
        """See `TreeMatcher`."""
        arrays = self._rows, self._start, self._interface, self._branch, self._row, self._with
        return sum(array.nbytes for array in arrays)


@kernel
def _reversed(rows: Array) -> npt.NDArray[np.uint64]:
    """Reverses the bits of each word, so that the order of numbers is that of the bits, ascending."""
    reverse: Words = np.zeros_like(rows)
    for number in range(rows.shape[0]):
        for word in range(rows.shape[1]):
            value, turned = rows[number, word], np.uint64(0)
            for _ in range(64):
                turned = turned << np.uint64(1) | value & np.uint64(1)
                value >>= np.uint64(1)
            reverse[number, word] = turned
    return reverse


@callee
def _has(rows: Array, row: I64, bit: I64) -> Flag:
    return rows[row, bit >> 6] >> np.uint64(bit & 63) & np.uint64(1) != np.uint64(0)


@kernel
def _trie(rows: Array) -> Tuple:
    """Makes the nodes in preorder: the subtree without the branching bit comes next.

    Returns the branching bit of each node (all bits for a leaf), a row below it, and the node with the bit.
    """
    bits, nodes = 64 * rows.shape[1], max(2 * len(rows) - 1, 0)
    branch, row = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
    with_bit = np.zeros(nodes, np.int32)
    # Ranges of rows whose node is still to be made, and the node whose second child it is.
    low, high, parent = (
        np.empty(bits + 2, np.int64),
        np.empty(bits + 2, np.int64),
        np.empty(bits + 2, np.int64),
    )
    low[0], high[0], parent[0] = 0, len(rows), -1
    waiting, node = np.int64(1 if nodes else 0), 0
    while waiting > 0:
        waiting -= 1
        begin, end, above = low[waiting], high[waiting], parent[waiting]
        if above >= 0:
            with_bit[above] = node
        row[node] = begin
        branch[node] = bits
        if end - begin > 1:
            # The rows are sorted: the first and the last one differ in the first bit in which any two do.
            word = 0
            while rows[begin, word] == rows[end - 1, word]:
                word += 1
            bit = 64 * word + trailing_zeros(np.int64(rows[begin, word] ^ rows[end - 1, word]))
            branch[node] = bit
            from_, to = begin, end
            while from_ < to:
                middle = (from_ + to) >> 1
                if _has(rows, middle, bit):
                    to = middle
                else:
                    from_ = middle + 1
            low[waiting], high[waiting], parent[waiting] = from_, end, node
            low[waiting + 1], high[waiting + 1], parent[waiting + 1] = begin, from_, -1
            waiting += 2
        node += 1
    return branch, row, with_bit


@kernel
def _walk(
    rows: Array,
    start: Array,
    interface: Array,
    branch: Array,
    row: Array,
    with_bit: Array,
    message: Array,
    open_: Array,
) -> None:
    bits = 64 * rows.shape[1]
    # A node to visit, and the first bit that its ancestors did not compare.
    nodes, compared = np.empty(bits + 2, np.int64), np.empty(bits + 2, np.int64)
    nodes[0], compared[0], waiting = 0, 0, np.int64(1)
    left = open_.sum()
    while waiting > 0:
        waiting -= 1
        node, begin = nodes[waiting], compared[waiting]
        own, end = row[node], np.int64(branch[node])
        matches = True
        for word in range(begin >> 6, (end + 63) >> 6):
            lacking = rows[own, word] & ~message[word]
            if word == begin >> 6:
                lacking &= ~np.uint64(0) << np.uint64(begin & 63)
            if word == end >> 6:
                lacking &= (np.uint64(1) << np.uint64(end & 63)) - np.uint64(1)
            if lacking:
                matches = False
                break
        if not matches:
            continue
        if end < bits:
            if message[end >> 6] >> np.uint64(end & 63) & np.uint64(1):
                nodes[waiting], compared[waiting] = with_bit[node], end + 1
                waiting += 1
            nodes[waiting], compared[waiting] = node + 1, end + 1
            waiting += 1
            continue
        for posting in range(start[own], start[own + 1]):
            if open_[interface[posting]]:
                open_[interface[posting]] = False
                left -= 1
                if left == 0:
                    return
