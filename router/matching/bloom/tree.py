"""The tree of a segment: a message visits the nodes whose bits it has.

A node has rows, all of which have the bits of the node and of those above it. The rows of the root are all;
of the rows of a node, those that have the most frequent bit form its first child, of the others those that
have the bit that is most frequent among them the second, and so on. Few rows that share no bit stay at
the node. The path to a row then has many of its bits, which few messages have, and the number of nodes is
small.

Source: the balanced partitions with common masks of TagMatch (Papalini et al., EuroSys 2016), one below
another.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from router.matching.bloom.layout import CHILD, LIST, NODE_COLUMNS, PICKED, PICKS, callee, kernel
from router.native.compiler import I64, Array, Tuple
from router.native.memory import trailing_zeros, without_lowest

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


@kernel
def grown(rows: Array, order: Array) -> Tuple:
    """Returns the tree of some rows: N nodes in breadth-first order.

    Args:
        rows: uint64 [R, words].
        order: int64, the numbers of the rows, which the function reorders.

    Returns:
        int64, the numbers of the rows, node by node; uint16 [N], the bit of each node, 0 for the root; int32
        [N + 1, NODE_COLUMNS], see `layout.Part.NODE`, where rows are counted in that order.
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
                counted = count_bits(rows, order, begin, end, step, counts)
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
def count_bits(rows: Array, order: Array, begin: I64, end: I64, step: I64, counts: Array) -> I64:
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
def picked(rows: Array, node: Array) -> npt.NDArray[np.uint64]:
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
