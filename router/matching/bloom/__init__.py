"""Sets of bits in tables, and the rows of numbers by which compiled code finds the arrays of a search.

A set of m bits is m/8 bytes in little-endian order: bit i is bit i mod 8 of byte i div 8. A table has rows of
whole words of 64 bits; bits from m on are 0.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum, auto
from functools import cache

import numpy as np
import numpy.typing as npt

from router.matching.filters import WorkingMemory
from router.native import Compiler
from router.predicates.encoded import check_bits

COMPILER = Compiler("bloom", "router.matching.bloom.*")
kernel, callee = COMPILER.kernel, COMPILER.callee


class Part(IntEnum):
    """The row of a segment: addresses of arrays, and numbers.

    R rows are the distinct filters, in the order of the nodes of the tree; the first `POPULAR` of them are in
    no node. N nodes are in breadth-first order: the children of a node are consecutive.
    """

    #: The number of words of a row.
    WORDS = 0
    #: uint64 [R, words]: the filters.
    ROWS = auto()
    #: uint64 [R]: of each row, the bytes that its node picks, which are compared first.
    PICKED = auto()
    #: int32 [R + 1]: the postings of row r are `start[r]` to `start[r + 1] - 1`.
    START = auto()
    #: int32 [F]: the dense number of the interface of each posting; 0: removed.
    INTERFACE = auto()
    #: The number of rows that are compared with every message.
    POPULAR = auto()
    #: uint16 [N]: the bit of each node but the root.
    BIT = auto()
    #: int32 [N + 1, NODE_COLUMNS]: of node n, its first child, its first row, and which bytes of its rows are
    #: compared first (uint16 [PICKED]); the children and the rows of a node end where those of the next one
    #: begin.
    NODE = auto()
    SIZE = auto()


class Search(IntEnum):
    """The row of a search: addresses of arrays of the working memory."""

    #: int32 [N of the largest segment + 1]: nodes whose bits the message has.
    NODES = 0
    #: int32: the dense numbers of the interfaces that matched.
    FOUND = auto()
    #: int32 [2 * CHUNK + 1]: rows that wait to be verified.
    CANDIDATES = auto()
    SIZE = auto()


#: The number of bytes of a row that are compared first.
PICKED = 8
#: Columns of `Part.NODE`; the last of them take half a column for each byte.
CHILD, LIST, PICKS = range(3)
NODE_COLUMNS = PICKS + PICKED // 2
#: Rows are verified when more than so many wait; so many rows of a node are read at a time.
CHUNK = 256
#: The picked bytes of a node are asked for so many nodes before they are compared.
AHEAD = 12
#: Columns of the row of a table: the search, the number of segments, and their addresses.
TABLE_SEARCH, TABLE_COUNT, TABLE_SEGMENTS = range(3)


class BitMemory(WorkingMemory):
    """See `WorkingMemory`."""

    def __init__(self) -> None:
        super().__init__(Search.SIZE, Search.FOUND)
        self._put(Search.CANDIDATES, np.zeros(2 * CHUNK + 1, np.int32))
        self._nodes = 0
        self.fit_nodes(64)

    def fit_nodes(self, nodes: int) -> None:
        """Allocates memory for a search in a tree of this many nodes."""
        if nodes > self._nodes:
            self._nodes = 2 * nodes
            # The last element takes nodes that the message does not visit.
            self._put(Search.NODES, np.zeros(self._nodes + 1, np.int32))


@cache
def working_memory() -> BitMemory:
    """Returns the working memory of the process."""
    return BitMemory()


WORD = 64


@dataclass(frozen=True, slots=True)
class BitTable:
    """F filters of any number of interfaces.

    Attributes:
        rows: uint64 [F, words], B_f of each filter.
        interface: int32 [F], the interface of each filter.
    """

    rows: npt.NDArray[np.uint64]
    interface: npt.NDArray[np.int32]


def words_of(bits: int) -> int:
    """The number of words in a row of sets of m bits.

    Raises:
        ValueError: as `check_bits`.
    """
    check_bits(bits)
    return -(-bits // WORD)


def rows_of(filters: Collection[bytes], bits: int) -> npt.NDArray[np.uint64]:
    """The rows of sets of m bits: uint64 [filters, words]."""
    words = words_of(bits)
    padded = b"".join(filter_.ljust(8 * words, b"\0") for filter_ in filters)
    return np.frombuffer(padded, "<u8").astype(np.uint64).reshape(len(filters), words)
