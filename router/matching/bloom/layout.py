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
    #: uint64 [R]: of each row, the word that is compared first.
    WORD = auto()
    #: int32 [R + 1]: the postings of row r are `start[r]` to `start[r + 1] - 1`.
    START = auto()
    #: int32 [F]: the dense number of the interface of each posting; 0: removed.
    INTERFACE = auto()
    #: The number of rows that are compared with every message.
    POPULAR = auto()
    #: uint16 [N]: the bit of each node but the root.
    BIT = auto()
    #: int32 [N + 1, 3]: of node n, its first child, its first row, and which word of its rows is compared
    #: first; the children and the rows of a node end where those of the next one begin.
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


#: Columns of `Part.NODE`.
CHILD, LIST, FIRST_WORD, NODE_COLUMNS = range(4)
#: Rows are verified when more than so many wait; so many rows of a node are read at a time.
CHUNK = 256
#: Columns of the row of a table: the search, the number of segments, and their addresses.
TABLE_SEARCH, TABLE_COUNT, TABLE_SEGMENTS = range(3)
