"""The segments of a compiled engine's table, and the merging that keeps their number small.

As in a log-structured merge tree (O'Neil et al., 1996), changes make a small segment, and segments of similar
size are merged. Each filter is copied a number of times that grows with the logarithm of the table. A removed
filter is marked, and left out by the next merge. A merge that takes long runs in a thread, while matching
continues with the old segments, in which nothing but marks changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from threading import Thread
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from router.native.memory import address_of

#: A segment is merged with the later ones if it has fewer than this many times as many filters as they have.
_RATIO = 4
#: The merges of one turn have at most so many records, 2 ms to 4 ms; a further merge runs in a thread.
BACKGROUND_RECORDS = 4_000
#: The number of a filter that is never removed by itself.
ANONYMOUS = -1

_Longs = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


class Segment(Protocol):
    """An immutable index over filters, except that filters can be removed from it.

    Attributes:
        interface: int32 [F], the dense number of the interface of each posting; 0 for a removed filter.
        position: int32 [F], the number of the posting of each filter of the table that it was made of.
    """

    interface: npt.NDArray[np.int32]
    position: npt.NDArray[np.int32]

    @property
    def filters(self) -> int:
        """The number of filters, with the removed ones."""

    @property
    def records(self) -> int:
        """A measure of the time that a merge with this segment takes."""

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

    @property
    def records(self) -> int:
        """See `Segment.records`, of the whole segment."""
        return self.segment.records


def _source_of(segment: S, retired: _Bools) -> Source[S]:
    """Returns the source of a segment.

    Args:
        segment: the segment.
        retired: bool [dense numbers], True for interfaces that are no longer in use; [0] is True.
    """
    return Source(segment, np.flatnonzero(~retired[segment.interface]))


class Layout(Protocol[T, S]):
    """How an engine makes its segments: of a table of filters, of the living filters of other segments."""

    def build(self, table: T) -> S:
        """Returns the segment of a table."""

    def merged(self, sources: Sequence[Source[S]]) -> T:
        """Returns the living filters of all sources, source by source, in the order of their postings."""

    def row(self, segments: Sequence[S]) -> _Longs:
        """Returns the row that compiled code reads to find the segments."""


@dataclass(slots=True, eq=False)
class _Held(Generic[S]):
    """A segment, the number of the filter of each posting, and how many of the filters were removed."""

    serial: int
    segment: S
    numbers: _Longs
    gone: int = 0

    @property
    def living(self) -> int:
        return self.segment.filters - self.gone


@dataclass(slots=True)
class _Merge(Generic[T, S]):
    """A running merge of consecutive segments."""

    layout: Layout[T, S]
    held: list[_Held[S]]
    sources: list[Source[S]]
    thread: Thread = field(init=False)
    result: list[S] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.thread = Thread(target=self.run, name="cbcb-merge")

    def run(self) -> None:
        self.result.append(self.layout.build(self.layout.merged(self.sources)))


class Segments(Generic[T, S]):
    """All segments of one table.

    Attributes:
        address: the address of the row of the layout that compiled code reads; every method that changes the
            segments changes it, except `take_out`.
    """

    def __init__(self, layout: Layout[T, S]) -> None:
        self._layout = layout
        self._held: list[_Held[S]] = []
        self._merge: _Merge[T, S] | None = None
        #: By number of a filter: serial number of its `_Held` (-1: none), and its posting there.
        self._holder: _Longs = np.full(64, -1, np.int64)
        self._position: _Longs = np.zeros(64, np.int64)
        self._numbers = 0
        self._by_serial: dict[int, _Held[S]] = {}
        self._serials = count()
        self._free: list[int] = []
        self._point()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def nbytes(self) -> int:
        own = self._position.nbytes + self._holder.nbytes
        return own + sum(held.segment.nbytes + held.numbers.nbytes for held in self._held)

    @property
    def merging(self) -> bool:
        """Whether a merge is running in a thread."""
        return self._merge is not None

    def number(self) -> int:
        """Returns a number for a filter that is to be added."""
        if self._free:
            return self._free.pop()
        if self._numbers == len(self._position):
            self._position = np.concatenate([self._position, np.zeros_like(self._position)])
            self._holder = np.concatenate([self._holder, np.full_like(self._holder, -1)])
        self._numbers += 1
        return self._numbers - 1

    def add(self, table: T, numbers: _Longs, retired: _Bools) -> None:
        """Adds filters as a new segment.

        Args:
            table: the filters.
            numbers: int64 [F], the number of each filter, or `ANONYMOUS`.
            retired: bool [dense numbers], True for interfaces that are no longer in use.
        """
        segment = self._layout.build(table)
        ordered = np.empty(len(numbers), np.int64)
        ordered[segment.position] = numbers
        held = _Held(next(self._serials), segment, ordered)
        self._held.append(held)
        self._locate(held)
        self.settle(retired)

    def take_out(self, numbers: Iterable[int]) -> None:
        """Removes filters; their numbers may be assigned again."""
        for number in numbers:
            held, position = self._by_serial.get(int(self._holder[number])), self._position[number]
            if held is not None:
                held.segment.interface[position] = 0
                held.numbers[position] = ANONYMOUS
                held.gone += 1
                self._holder[number] = -1
            self._free.append(number)

    def retire(self, dense: int) -> None:
        """Counts the filters of an interface as removed: they have no numbers, and it is no longer in use."""
        for held in self._held:
            held.gone += int(np.count_nonzero(held.segment.interface == dense))

    def settle(self, retired: _Bools) -> None:
        """Takes over the result of a finished merge, and starts the merges that are due."""
        if self._merge is not None and not self._merge.thread.is_alive():
            merge, self._merge = self._merge, None
            self._adopt(merge, retired)
        left = BACKGROUND_RECORDS
        while due := self._due():
            records = sum(held.segment.records for held in due)
            small = records <= left
            if not small and self._merge is not None:
                break
            merge = _Merge(self._layout, due, [_source_of(held.segment, retired) for held in due])
            if small:
                left -= records
                merge.run()
                self._adopt(merge, retired)
            else:
                self._merge = merge
                merge.thread.start()
        self._point()

    def wait(self, retired: _Bools) -> None:
        """Waits until no merge is running or due."""
        while self._merge is not None:
            self._merge.thread.join()
            self.settle(retired)

    def _due(self) -> list[_Held[S]]:
        """Returns the segments to merge next; a segment that is being merged is not among them."""
        busy = [] if self._merge is None else self._merge.held
        for held in self._held:
            if held.gone * 2 > held.segment.filters and held not in busy:
                return [held]
        # Segments that were added since the merge began come after the merged ones.
        oldest = self._held.index(busy[-1]) + 1 if busy else 0
        first, living = len(self._held), 0
        while first > oldest and (not living or self._held[first - 1].living < _RATIO * living):
            first -= 1
            living += max(1, self._held[first].living)
        due = self._held[first:]
        return due if len(due) > 1 else []

    def _adopt(self, merge: _Merge[T, S], retired: _Bools) -> None:
        """Replaces the segments of a merge by its result."""
        if not merge.result:
            raise RuntimeError("a merge of forwarding tables failed; see the traceback of its thread")
        (segment,) = merge.result
        pairs = list(zip(merge.held, merge.sources, strict=True))
        before = np.concatenate([held.segment.interface[source.living] for held, source in pairs])
        numbers = np.concatenate([held.numbers[source.living] for held, source in pairs])
        ordered = np.empty(len(numbers), np.int64)
        ordered[segment.position] = numbers
        # Some filters were removed while the merge ran.
        segment.interface[segment.position[before == 0]] = 0
        held = _Held(next(self._serials), segment, ordered, int(np.count_nonzero(retired[segment.interface])))
        first = self._held.index(merge.held[0])
        self._held[first : first + len(merge.held)] = [held] if held.living else []
        for old in merge.held:
            self._by_serial.pop(old.serial, None)
        self._locate(held)

    def _locate(self, held: _Held[S]) -> None:
        known = np.flatnonzero(held.numbers != ANONYMOUS)
        numbers = held.numbers[known]
        self._position[numbers] = known
        self._holder[numbers] = held.serial
        if held.living:
            self._by_serial[held.serial] = held

    def _point(self) -> None:
        """Makes the row that compiled code reads."""
        self._row = self._layout.row([held.segment for held in self._held])
        self.address = address_of(self._row)
