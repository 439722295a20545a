"""The segments of a compiled engine's table, and the merging that keeps their number small.

The logarithmic method (Bentley and Saxe, "Decomposable searching problems", J. Algorithms 1980): the filters
added since the last message become a small segment; segments that are not several times as large as all later
segments are merged with them. Each filter is therefore copied a number of times that grows with the logarithm
of the table. A removed filter is marked, and left out by the next merge.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from router.native.memory import address_of

#: A segment is merged with the later segments if it has fewer than this many times as many filters as they
#: have.
_RATIO = 4
#: The number of a filter that is never removed by itself.
ANONYMOUS = -1

_Longs = npt.NDArray[np.int64]


class Segment(Protocol):
    """An immutable index over filters, except that filters can be removed from it.

    Attributes:
        interface: int32 [F], the dense number of the interface of each posting; 0 for a removed filter.
        position: int32 [F], the number of the posting of each filter of the table that it was made of.
    """

    interface: npt.NDArray[np.int32]
    position: npt.NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        """The memory of its arrays."""


T = TypeVar("T")
S = TypeVar("S", bound=Segment)


@dataclass(frozen=True, slots=True)
class Source(Generic[S]):
    """A segment, and its postings (int64, ascending) that were not removed."""

    segment: S
    living: _Longs


@dataclass(slots=True, eq=False)
class _Held(Generic[S]):
    """A segment, the number of the filter of each posting, and how many of the filters were removed."""

    segment: S
    numbers: _Longs
    gone: int = 0

    @property
    def living(self) -> int:
        return len(self.numbers) - self.gone


class Segments(ABC, Generic[T, S]):
    """All segments of one table, the oldest and largest first.

    Attributes:
        address: the address of the row that compiled code reads; `add` changes it.
    """

    def __init__(self) -> None:
        self._held: list[_Held[S]] = []
        #: By number of a filter: index of its segment, and its posting there.
        self._holder: _Longs = np.zeros(64, np.int64)
        self._position: _Longs = np.zeros(64, np.int64)
        self._numbers = 0
        self._free: list[int] = []
        self._point()

    @abstractmethod
    def build(self, table: T) -> S:
        """Returns the segment of a table."""

    @abstractmethod
    def merged(self, sources: Sequence[Source[S]]) -> T:
        """Returns the living filters of all sources, source by source, in the order of their postings."""

    @abstractmethod
    def row(self, segments: Sequence[S]) -> _Longs:
        """Returns the row by which compiled code finds the segments."""

    def __len__(self) -> int:
        return len(self._held)

    @property
    def nbytes(self) -> int:
        own = self._position.nbytes + self._holder.nbytes
        return own + sum(held.segment.nbytes + held.numbers.nbytes for held in self._held)

    def number(self) -> int:
        """Returns a number for a filter that is to be added."""
        if self._free:
            return self._free.pop()
        if self._numbers == len(self._position):
            self._position = np.concatenate([self._position, np.zeros_like(self._position)])
            self._holder = np.concatenate([self._holder, np.zeros_like(self._holder)])
        self._numbers += 1
        return self._numbers - 1

    def add(self, table: T, numbers: _Longs) -> None:
        """Adds filters as a new segment, and merges the segments that are due.

        Args:
            table: the filters.
            numbers: int64 [F], the number of each filter, or `ANONYMOUS`.
        """
        self._append(table, numbers)
        while (first := self._due()) is not None:
            due = self._held[first:]
            sources = [Source(held.segment, np.flatnonzero(held.segment.interface)) for held in due]
            pairs = zip(due, sources, strict=True)
            numbers = np.concatenate([held.numbers[source.living] for held, source in pairs])
            del self._held[first:]
            if len(numbers):
                self._append(self.merged(sources), numbers)
        self._point()

    def take_out(self, number: int) -> None:
        """Removes a filter; its number may be assigned again."""
        held, position = self._held[self._holder[number]], self._position[number]
        held.segment.interface[position] = 0
        held.numbers[position] = ANONYMOUS
        held.gone += 1
        self._free.append(number)

    def retire(self, dense: int) -> None:
        """Removes the filters of an interface that have no numbers."""
        for held in self._held:
            own = np.flatnonzero(held.segment.interface == dense)
            held.segment.interface[own] = 0
            held.gone += len(own)

    def _due(self) -> int | None:
        """Returns the index of the first segment to merge, with all later segments; None: there is none.

        A segment of which more than half was removed is made a second time, too.
        """
        for index, held in enumerate(self._held):
            if held.gone > held.living:
                return index
        first, living = len(self._held), 0
        while first and (not living or self._held[first - 1].living < _RATIO * living):
            first -= 1
            living += max(1, self._held[first].living)
        return first if first < len(self._held) - 1 else None

    def _append(self, table: T, numbers: _Longs) -> None:
        segment = self.build(table)
        ordered = np.empty(len(numbers), np.int64)
        ordered[segment.position] = numbers
        known = np.flatnonzero(ordered != ANONYMOUS)
        self._position[ordered[known]] = known
        self._holder[ordered[known]] = len(self._held)
        self._held.append(_Held(segment, ordered))

    def _point(self) -> None:
        """Makes the row that compiled code reads."""
        self._row = self.row([held.segment for held in self._held])
        self.address = address_of(self._row)
