"""The rows of numbers by which compiled code finds the arrays of a segment and of a search."""

from __future__ import annotations

from enum import IntEnum, auto


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
