"""The segments of a table, and how they are kept few.

As in a log-structured merge tree (O'Neil et al., 1996): changes make a small segment, segments of like size
are merged, so that a filter is moved a number of times that grows with the logarithm of the table. What is
taken out is only marked until then. Merges that would take long are done in a thread, while matching goes on
with the old segments, of which nothing changes but marks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from threading import Thread

import numpy as np
import numpy.typing as npt

from router.matching.compiled.matching import TABLE_COUNT, TABLE_SEARCH, TABLE_SEGMENTS
from router.matching.compiled.merging import Source, merged_table, source_of
from router.matching.compiled.normal import NormalTable
from router.matching.compiled.scratch import working_memory
from router.matching.compiled.segment import Segment
from router.native.memory import address_of

#: A segment is merged with those after it if it has less than so many times as many filters.
_RATIO = 4
#: Merges of more records than this are done in a thread (some 10 ms).
BACKGROUND_RECORDS = 20_000
#: Number of a filter that is not taken out by itself.
ANONYMOUS = -1

_Longs = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


@dataclass(slots=True, eq=False)
class _Held:
    """A segment; by posting, the numbers under which its filters can be taken out; how many are gone."""

    serial: int
    segment: Segment
    numbers: _Longs
    gone: int = 0

    @property
    def living(self) -> int:
        return self.segment.filters - self.gone


@dataclass(slots=True)
class _Merge:
    """A merge under way, of some segments that stand next to each other."""

    held: list[_Held]
    sources: list[Source]
    thread: Thread = field(init=False)
    result: list[Segment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.thread = Thread(target=self.run, name="cbcb-merge")

    def run(self) -> None:
        self.result.append(Segment(merged_table(self.sources)))


class Segments:
    """All segments of one table.

    Attributes:
        address: of the row for `matching.match`; it changes with every change but `take_out`.
    """

    def __init__(self) -> None:
        self._held: list[_Held] = []
        self._merge: _Merge | None = None
        #: By number of a filter: serial number of what holds it (-1: nothing), and where its posting stands.
        self._holder: _Longs = np.full(64, -1, np.int64)
        self._position: _Longs = np.zeros(64, np.int64)
        self._numbers = 0
        self._by_serial: dict[int, _Held] = {}
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
        """Whether a merge is under way in a thread."""
        return self._merge is not None

    def number(self) -> int:
        """A number for a filter that is about to be added."""
        if self._free:
            return self._free.pop()
        if self._numbers == len(self._position):
            self._position = np.concatenate([self._position, np.zeros_like(self._position)])
            self._holder = np.concatenate([self._holder, np.full_like(self._holder, -1)])
        self._numbers += 1
        return self._numbers - 1

    def add(self, table: NormalTable, numbers: _Longs, retired: _Bools) -> None:
        """A new segment.

        Args:
            table: its filters.
            numbers: int64 [F], of each filter, or `ANONYMOUS`.
            retired: bool [dense numbers], interfaces not in use any more.
        """
        segment = Segment(table)
        ordered = np.empty(len(numbers), np.int64)
        ordered[segment.position] = numbers
        held = _Held(next(self._serials), segment, ordered)
        self._held.append(held)
        self._locate(held)
        self.settle(retired)

    def take_out(self, numbers: Iterable[int]) -> None:
        """These filters are gone; their numbers may be given again."""
        for number in numbers:
            held, position = self._by_serial.get(int(self._holder[number])), self._position[number]
            if held is not None:
                held.segment.interface[position] = 0
                held.numbers[position] = ANONYMOUS
                held.gone += 1
                self._holder[number] = -1
            self._free.append(number)

    def retire(self, dense: int) -> None:
        """An interface whose filters have no numbers is not in use any more: counts them as gone."""
        for held in self._held:
            held.gone += int(np.count_nonzero(held.segment.interface == dense))

    def settle(self, retired: _Bools) -> None:
        """Finishes a merge that is done, and begins the next ones that are due."""
        if self._merge is not None and not self._merge.thread.is_alive():
            merge, self._merge = self._merge, None
            self._adopt(merge, retired)
        while due := self._due():
            small = sum(held.segment.records for held in due) <= BACKGROUND_RECORDS
            if not small and self._merge is not None:
                break
            merge = _Merge(due, [source_of(held.segment, retired) for held in due])
            if small:
                merge.run()
                self._adopt(merge, retired)
            else:
                self._merge = merge
                merge.thread.start()
        self._point()

    def wait(self, retired: _Bools) -> None:
        """Waits until no merge is under way or due."""
        while self._merge is not None:
            self._merge.thread.join()
            self.settle(retired)

    def _due(self) -> list[_Held]:
        """The segments to be merged next, of those that are not being merged."""
        busy = [] if self._merge is None else self._merge.held
        for held in self._held:
            if held.gone * 2 > held.segment.filters and held not in busy:
                return [held]
        # Those that came since stand behind.
        oldest = self._held.index(busy[-1]) + 1 if busy else 0
        first, living = len(self._held), 0
        while first > oldest and (not living or self._held[first - 1].living < _RATIO * living):
            first -= 1
            living += max(1, self._held[first].living)
        due = self._held[first:]
        return due if len(due) > 1 else []

    def _adopt(self, merge: _Merge, retired: _Bools) -> None:
        """The result of a merge takes the place of what it was made of."""
        if not merge.result:
            raise RuntimeError("a merge of forwarding tables failed; see the traceback of its thread")
        (segment,) = merge.result
        pairs = list(zip(merge.held, merge.sources, strict=True))
        before = np.concatenate([held.segment.interface[source.living] for held, source in pairs])
        numbers = np.concatenate([held.numbers[source.living] for held, source in pairs])
        ordered = np.empty(len(numbers), np.int64)
        ordered[segment.position] = numbers
        # Some were taken out since it began.
        segment.interface[segment.position[before == 0]] = 0
        held = _Held(next(self._serials), segment, ordered, int(np.count_nonzero(retired[segment.interface])))
        first = self._held.index(merge.held[0])
        self._held[first : first + len(merge.held)] = [held] if held.living else []
        for old in merge.held:
            self._by_serial.pop(old.serial, None)
        self._locate(held)

    def _locate(self, held: _Held) -> None:
        known = np.flatnonzero(held.numbers != ANONYMOUS)
        numbers = held.numbers[known]
        self._position[numbers] = known
        self._holder[numbers] = held.serial
        if held.living:
            self._by_serial[held.serial] = held

    def _point(self) -> None:
        """Makes the row that compiled code starts from."""
        memory = working_memory()
        row = np.empty(TABLE_SEGMENTS + len(self._held), np.int64)
        row[TABLE_SEARCH], row[TABLE_COUNT] = memory.address, len(self._held)
        for number, held in enumerate(self._held):
            row[TABLE_SEGMENTS + number] = address_of(held.segment.parts)
            memory.fit_segment(held.segment.slots, held.segment.groups)
        self._row, self.address = row, address_of(row)
