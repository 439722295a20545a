"""Segments: an immutable index over filters, except that filters can be removed from it.

A filter is a subset of a message only if its two rarest bits are, which few messages have. It is filed in the
list of this pair. A message visits the lists of the pairs of its own bits. In a list, the next 128 bits by
rarity are compared first: those of a list are consecutive in memory, and exclude nearly every filter.

The rows that match most interfaces are compared first, with every message, so that the search can end early.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from router.matching.bloom.compiler import callee, kernel
from router.matching.bloom.interface import WORD, BitTable
from router.matching.bloom.layout import TABLE_COUNT, TABLE_SEARCH, TABLE_SEGMENTS, Part
from router.matching.bloom.scratch import working_memory
from router.matching.common.segments import Source
from router.native.bits import trailing_zeros, without_lowest
from router.native.compiler import I64, Array
from router.native.memory import address_of

#: The number of rows that are compared with every message, at most.
_POPULAR = 128
_Ints = npt.NDArray[np.int32]
_Shorts = npt.NDArray[np.uint16]
_Words = npt.NDArray[np.uint64]


class Segment:
    """An index over a table whose interfaces are dense numbers.

    Attributes:
        parts: int64 [Part.SIZE], the row that compiled code reads; the segment owns the arrays to which it
            refers.
        interface, position: see `router.matching.common.segments.Segment`.
    """

    def __init__(self, table: BitTable) -> None:
        filters, words = table.rows.shape
        counts = _count_bits(table.rows)
        self._bit: _Shorts = np.argsort(counts, kind="stable").astype(np.uint16)
        rank = np.empty(WORD * words, np.uint16)
        rank[self._bit] = np.arange(WORD * words, dtype=np.uint16)
        rows = _moved(table.rows, rank)
        order = np.argsort(_sort_keys(rows), kind="stable")
        first_filter = np.flatnonzero(_is_new(rows, order))
        interfaces = np.diff(first_filter, append=filters)
        pairs = _pairs(rows, order[first_filter])
        popular = _popular(pairs, interfaces, counts[self._bit])
        # Popular rows first, the others by their lists.
        row_order = np.argsort(np.where(popular, 0, 1 + pairs), kind="stable")
        interfaces, pairs = interfaces[row_order], pairs[row_order]
        start = np.concatenate([[0], np.cumsum(interfaces)])
        within = np.arange(filters) - np.repeat(start[:-1], interfaces)
        order = order[np.repeat(first_filter[row_order], interfaces) + within]
        self.position: _Ints = np.empty(filters, np.int32)
        self.position[order] = np.arange(filters, dtype=np.int32)
        self.interface: _Ints = table.interface[order]
        self._rows = _aligned(rows[order[start[:-1]]])
        self._start: _Ints = start.astype(np.int32)
        number = int(popular.sum())
        listed = pairs[number:]
        begins = np.flatnonzero(np.diff(listed, prepend=-1))
        lists = np.append(number + begins, len(pairs)).astype(np.int32)
        firsts, seconds = np.divmod(listed[begins], WORD * words)
        first = np.searchsorted(firsts, np.arange(WORD * words + 1)).astype(np.int32)
        seconds_of_rows = pairs % (WORD * words)
        self._arrays = {
            Part.RANK: rank,
            Part.ROWS: self._rows,
            Part.NEXT: _following(self._rows, seconds_of_rows + 1, number),
            Part.AFTER: _following(self._rows, seconds_of_rows + 1 + WORD, number),
            Part.START: self._start,
            Part.INTERFACE: self.interface,
            Part.FIRST: first,
            Part.SECOND: seconds.astype(np.uint16),
            Part.LIST: lists,
        }
        self.parts = np.zeros(Part.SIZE, np.int64)
        for part, array in self._arrays.items():
            self.parts[part] = address_of(array)
        self.parts[Part.WORDS], self.parts[Part.POPULAR] = words, number

    @property
    def filters(self) -> int:
        """The number of filters, with the removed ones."""
        return len(self.interface)

    @property
    def records(self) -> int:
        """See `router.matching.common.segments.Segment`."""
        return len(self.interface)

    @property
    def distinct(self) -> int:
        """The number of distinct filters."""
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """The memory of the arrays, in bytes."""
        own = self.position.nbytes + self._bit.nbytes + self.parts.nbytes
        return int(own + sum(array.nbytes for array in self._arrays.values()))

    def table(self, postings: npt.NDArray[np.int64]) -> BitTable:
        """Returns the filters of some postings (ascending), in their order."""
        row = np.searchsorted(self._start, postings, side="right") - 1
        return BitTable(_moved(self._rows[row], self._bit), self.interface[postings])


class BloomLayout:
    """See `router.matching.common.segments.Layout`."""

    def build(self, table: BitTable) -> Segment:
        """See `Layout`."""
        return Segment(table)

    def merged(self, sources: Sequence[Source[Segment]]) -> BitTable:
        """See `Layout`."""
        tables = [source.segment.table(source.living) for source in sources]
        return BitTable(
            np.concatenate([table.rows for table in tables]),
            np.concatenate([table.interface for table in tables]),
        )

    def row(self, segments: Sequence[Segment]) -> npt.NDArray[np.int64]:
        """See `Layout`."""
        row = np.empty(TABLE_SEGMENTS + len(segments), np.int64)
        row[TABLE_SEARCH], row[TABLE_COUNT] = address_of(working_memory().row), len(segments)
        for number, segment in enumerate(segments):
            row[TABLE_SEGMENTS + number] = address_of(segment.parts)
        return row


LAYOUT = BloomLayout()


def _popular(
    pairs: npt.NDArray[np.int64], interfaces: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Chooses the rows that are expected to match most interfaces, and the row without bits.

    Args:
        pairs: b1 * bits + b2 of each row, -1 for the row without bits.
        interfaces: the number of interfaces of each row.
        counts: the number of filters that have the bit of each rank.
    """
    expected = interfaces * counts[pairs // len(counts)] * counts[pairs % len(counts)]
    chosen = pairs < 0
    if len(pairs) <= _POPULAR:
        chosen[:] = True
    else:
        chosen[np.argpartition(expected, -_POPULAR)[-_POPULAR:]] = True
    return chosen


def _aligned(rows: _Words) -> _Words:
    """Returns rows that start at a cache line."""
    room = np.empty(rows.size + 8, np.uint64)
    skip = -address_of(room) % 64 // 8
    aligned = room[skip : skip + rows.size].reshape(rows.shape)
    aligned[:] = rows
    return aligned


@kernel
def _count_bits(rows: Array) -> npt.NDArray[np.int64]:
    """Counts the filters that have each bit."""
    filters, words = rows.shape
    counts = np.zeros(64 * words, np.int64)
    for number in range(filters):
        for word in range(words):
            left = np.int64(rows[number, word])
            while left != 0:
                counts[64 * word + trailing_zeros(left)] += 1
                left = without_lowest(left)
    return counts


@kernel
def _moved(rows: Array, to: Array) -> _Words:
    """Moves bit b of each row to `to[b]`."""
    filters, words = rows.shape
    moved = np.zeros((filters, words), np.uint64)
    for number in range(filters):
        for word in range(words):
            left = np.int64(rows[number, word])
            while left != 0:
                place = np.int64(to[64 * word + trailing_zeros(left)])
                moved[number, place >> 6] |= np.uint64(1) << np.uint64(place & 63)
                left = without_lowest(left)
    return moved


@callee
def _pair(rows: Array, number: I64) -> I64:
    """Returns b1 * bits + b2 for the two rarest bits of a row; b2 is b1 if it has one, -1 if it has none."""
    words = rows.shape[1]
    first = np.int64(-1)
    for word in range(words):
        left = np.int64(rows[number, word])
        while left != 0:
            place = 64 * word + trailing_zeros(left)
            left = without_lowest(left)
            if first >= 0:
                return first * 64 * words + place
            first = place
    return first * 64 * words + first if first >= 0 else np.int64(-1)


@kernel
def _sort_keys(rows: Array) -> _Words:
    """Returns keys that bring equal rows together, the pair first."""
    filters, words = rows.shape
    keys = np.empty(filters, np.uint64)
    for number in range(filters):
        digest = np.uint64(0)
        for word in range(words):
            # The constants of MurmurHash3's finalizer.
            digest = (digest ^ rows[number, word]) * np.uint64(0xFF51AFD7ED558CCD)
            digest = digest ^ digest >> np.uint64(33)
        keys[number] = np.uint64(_pair(rows, number) + 1) << np.uint64(32) | digest >> np.uint64(32)
    return keys


@kernel
def _is_new(rows: Array, order: Array) -> npt.NDArray[np.bool_]:
    """Whether each row differs from the previous one in the order."""
    new = np.ones(len(order), np.bool_)
    for at in range(1, len(order)):
        same = True
        for word in range(rows.shape[1]):
            if rows[order[at], word] != rows[order[at - 1], word]:
                same = False
                break
        new[at] = not same
    return new


@kernel
def _pairs(rows: Array, numbers: Array) -> npt.NDArray[np.int64]:
    """Returns `_pair` of some rows."""
    pairs = np.empty(len(numbers), np.int64)
    for at in range(len(numbers)):
        pairs[at] = _pair(rows, numbers[at])
    return pairs


@kernel
def _following(rows: Array, starts: Array, popular: I64) -> _Words:
    """Returns the 64 bits of each row that begin at `starts`; 0 for popular rows."""
    words = rows.shape[1]
    following = np.zeros(len(rows), np.uint64)
    for number in range(popular, len(rows)):
        start = starts[number]
        word, shift = start >> 6, np.uint64(start & 63)
        if word < words:
            following[number] = rows[number, word] >> shift
        if shift and word + 1 < words:
            following[number] |= rows[number, word + 1] << (np.uint64(64) - shift)
    return following
