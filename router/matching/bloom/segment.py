"""Segments: an immutable index over filters, except that filters can be removed from it.

Equal filters are one row, with the interfaces of each. Rows are in the nodes of a tree, of which a message
visits those whose bits it has. Of the rows of a node, eight bytes are compared first: those of a node are
consecutive in memory, and exclude nearly every row. The rows that match most interfaces are compared before
the tree, with every message, so that the search can end early.

All rows of a node have the bits of the node and of those above it. The rows of the root are all; of the rows
of a node, those that have the most frequent bit form its first child, of the others those that have the bit
that is most frequent among them the second, and so on. Few rows that share no bit stay at the node. The path
to a row then has many of its bits, which few messages have, and the number of nodes is small. Source: the
balanced partitions with common masks of TagMatch (Papalini et al., EuroSys 2016), one below another.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from router.matching.bloom import (
    CHILD,
    LIST,
    NODE_COLUMNS,
    PICKED,
    PICKS,
    BitTable,
    Part,
    callee,
    kernel,
)
from router.native import I64, Array, Tuple, address_of, trailing_zeros, without_lowest

#: The number of rows that are compared with every message, at most.
_POPULAR = 128
#: A node with more rows than this has children.
_ROWS = 24
#: The fewest rows of a child.
_FEWEST = 6
#: Of more rows than this, a sample of about so many is counted.
_SAMPLE = 4096
#: The mean depth of the rows of a tree, at most: nodes at the end of it get no children. Rows that contain
#: each other would make a path as long as their number, and take a time that grows with its square.
_DEPTH = 16
#: Bytes are picked by so many rows of a node, at most.
_SAMPLED = 64
#: Byte -> how probably a message has its bits, where it has a quarter of all bits.
_PASSES = np.array([0.25 ** byte.bit_count() for byte in range(256)], np.float32)
_Ints = npt.NDArray[np.int32]
_Words = npt.NDArray[np.uint64]


class Segment:
    """An index over a table whose interfaces are dense numbers.

    Attributes:
        parts: int64 [Part.SIZE], the row that compiled code reads; the segment owns the arrays to which it
            refers.
        interface, position: see `router.matching.filters.Segment`.
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
        tree_order, bit, node = _grown(distinct, np.flatnonzero(~popular))
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
            Part.PICKED: _picked(self._rows, node),
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
    _count_bits(rows, np.arange(filters), 0, filters, 1, counts)
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


@kernel
def _grown(rows: Array, order: Array) -> Tuple:
    """Returns the tree of some rows: N nodes in breadth-first order.

    Args:
        rows: uint64 [R, words].
        order: int64, the numbers of the rows, which the function reorders.

    Returns:
        int64, the numbers of the rows, node by node; uint16 [N], the bit of each node, 0 for the root; int32
        [N + 1, NODE_COLUMNS], see `Part.NODE`, where rows are counted in that order.
    """
    words = rows.shape[1]
    # A child has two rows at least, and the nodes with children have `_DEPTH` times all rows. Pages of the
    # arrays that are not used take no memory.
    most = 2 + (_DEPTH + 1) * len(order) // 2
    bit = np.empty(most, np.uint16)
    low, high = np.empty(most, np.int64), np.empty(most, np.int64)
    node = np.empty((most + 1, NODE_COLUMNS), np.int32)
    aside = np.empty(len(order), np.int64)
    counts = np.zeros(64 * words, np.int64)
    bit[0], low[0], high[0] = 0, 0, len(order)
    nodes, at, placed = 1, 0, 0
    left = _DEPTH * len(order)
    while at < nodes:
        node[at, CHILD] = nodes
        begin, end = low[at], high[at]
        left -= end - begin
        fresh = True
        while left >= 0 and end - begin > _ROWS:
            sampled = end - begin > _SAMPLE
            if fresh:
                step = max(1, (end - begin) // _SAMPLE)
                counted = _count_bits(rows, order, begin, end, step, counts)
                # The counts of a sample do not follow the rows that are taken out.
                fresh = sampled
            best, often = 0, np.int64(0)
            for place in range(len(counts)):
                # A bit that all rows have is on the path, or would make a child of the same rows.
                if often < counts[place] < counted:
                    best, often = place, counts[place]
            if often < (2 if sampled else _FEWEST):
                break
            word, shift = best >> 6, np.uint64(best & 63)
            kept, moved = begin, 0
            for number in range(begin, end):
                row = order[number]
                if rows[row, word] >> shift & np.uint64(1):
                    aside[moved] = row
                    moved += 1
                else:
                    order[kept] = row
                    kept += 1
            order[kept:end] = aside[:moved]
            if not sampled:
                for number in range(kept, end):
                    _count(rows, order[number], counts, -1)
                counted -= moved
            bit[nodes], low[nodes], high[nodes] = best, kept, end
            nodes += 1
            end = kept
        high[at] = end
        at += 1
    # The rows that stayed, node by node.
    final = np.empty_like(order)
    octets, weight = rows.view(np.uint8), np.empty((_SAMPLED, 8 * words), np.float32)
    for at in range(nodes):
        node[at, LIST] = placed
        _pick(octets, order, low[at], high[at], weight, node[at, PICKS:].view(np.uint16))
        for number in range(low[at], high[at]):
            final[placed] = order[number]
            placed += 1
    node[nodes, CHILD], node[nodes, LIST] = nodes, placed
    return final, bit[:nodes].copy(), node[: nodes + 1].copy()


@callee
def _count_bits(rows: Array, order: Array, begin: I64, end: I64, step: I64, counts: Array) -> I64:
    """Counts the rows that have each bit, of every `step`-th row; returns how many rows it read."""
    counts[:] = 0
    read = np.int64(0)
    for number in range(begin, end, step):
        _count(rows, order[number], counts, 1)
        read += 1
    return read


@callee
def _count(rows: Array, row: I64, counts: Array, more: I64) -> None:
    """Adds a number to the count of each bit of a row."""
    for word in range(rows.shape[1]):
        left = np.int64(rows[row, word])
        while left != 0:
            counts[64 * word + trailing_zeros(left)] += more
            left = without_lowest(left)


@callee
def _pick(rows: Array, order: Array, begin: I64, end: I64, weight: Array, picks: Array) -> None:
    """Picks the bytes that exclude most rows of a node, one after the other.

    Args:
        rows: uint8 [R, bytes of a row].
        weight: float32 [_SAMPLED, bytes of a row], working memory.
        picks: uint16 [PICKED], the result.
    """
    octets, number = weight.shape[1], min(end - begin, len(weight))
    common = np.full(octets, 0xFF, np.uint8)
    for at in range(number):
        row = order[begin + at]
        for byte in range(octets):
            common[byte] &= rows[row, byte]
    for at in range(number):
        row = order[begin + at]
        for byte in range(octets):
            weight[at, byte] = _PASSES[rows[row, byte] & ~common[byte]]
    passes = np.ones(number, np.float32)
    expected = np.empty(octets, np.float32)
    taken = np.zeros(octets, np.bool_)
    for place in range(PICKED):
        expected[:] = 0
        for at in range(number):
            for byte in range(octets):
                expected[byte] += passes[at] * weight[at, byte]
        best = -1
        for byte in range(octets):
            if not taken[byte] and (best < 0 or expected[byte] < expected[best]):
                best = byte
        taken[best] = True
        picks[place] = best
        for at in range(number):
            passes[at] *= weight[at, best]


@kernel
def _picked(rows: Array, node: Array) -> npt.NDArray[np.uint64]:
    """Returns the bytes of each row that its node picks, as one number (`Part.PICKED`).

    Args:
        rows: uint64 [R, words], in the order of the nodes.
        node: `Part.NODE`.
    """
    words, octets = np.zeros(len(rows), np.uint64), rows.view(np.uint8)
    for at in range(len(node) - 1):
        picks = node[at, PICKS:].view(np.uint16)
        for row in range(node[at, LIST], node[at + 1, LIST]):
            for place in range(PICKED):
                words[row] |= np.uint64(octets[row, picks[place]]) << np.uint64(8 * place)
    return words
