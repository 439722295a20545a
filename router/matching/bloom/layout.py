"""The rows of numbers by which compiled code finds the arrays of a segment and of a search."""

from __future__ import annotations

from enum import IntEnum, auto


class Part(IntEnum):
    """The row of a segment: addresses of arrays, and numbers.

    The rank of a bit is its place when the bits are sorted by the number of filters that have it, rarest
    first. R rows are the distinct filters; the first `POPULAR` of them are in no list.
    """

    #: uint16 [words * 64]: the rank of each bit.
    RANK = 0
    #: The number of words of a row.
    WORDS = auto()
    #: uint64 [R, words]: the filters, by rank: bit r of the row is the bit of rank r.
    ROWS = auto()
    #: uint64 [R]: the ranks b2 + 1 to b2 + 64 of each row in a list.
    NEXT = auto()
    #: uint64 [R]: the ranks b2 + 65 to b2 + 128.
    AFTER = auto()
    #: int32 [R + 1]: the postings of row r are `start[r]` to `start[r + 1] - 1`.
    START = auto()
    #: int32 [F]: the dense number of the interface of each posting; 0: removed.
    INTERFACE = auto()
    #: The number of rows that are compared with every message.
    POPULAR = auto()
    #: int32 [words * 64 + 1]: the lists of the first bit b1 are `first[b1]` to `first[b1 + 1] - 1`.
    FIRST = auto()
    #: uint16 [L]: the second bit b2 of each list, by rank; b1 itself for filters of one bit.
    SECOND = auto()
    #: int32 [L + 1]: the rows of list l are `list[l]` to `list[l + 1] - 1`.
    LIST = auto()
    SIZE = auto()


class Search(IntEnum):
    """The row of a search: addresses of arrays of the working memory."""

    #: uint64 [words + 2]: the bits that the message has, by rank; the last two words are 0.
    HAVE = 0
    #: uint8 [words * 64]: 1 for each rank that the message has.
    PRESENT = auto()
    #: int32 [words * 64]: the ranks that the message has, in ascending order.
    RANKS = auto()
    #: int32: the dense numbers of the interfaces that matched.
    FOUND = auto()
    #: int32 [2 * CHUNK + 1]: rows that wait to be verified.
    CANDIDATES = auto()
    SIZE = auto()


#: Rows are verified when more than so many wait; so many rows of a list are read at a time.
CHUNK = 256
#: Columns of the row of a table: the search, the number of segments, and their addresses.
TABLE_SEARCH, TABLE_COUNT, TABLE_SEGMENTS = range(3)
