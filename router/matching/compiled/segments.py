"""The segments of a table, and how they are kept few.

As in a log-structured merge tree (O'Neil et al., 1996): changes make a small segment, segments of like size
are merged, so that a filter is moved a number of times that grows with the logarithm of the table. What is
taken out is only marked until then. Merges that would take long are done in a thread, while matching goes on
with the old segments, of which nothing changes but marks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Thread

import numpy as np
import numpy.typing as npt

from router.matching.compiled.matching import TABLE_COUNT, TABLE_SEARCH, TABLE_SEGMENTS
from router.matching.compiled.memory import address_of
from router.matching.compiled.merging import Source, merged_table, source_of
from router.matching.compiled.normal import NormalTable
from router.matching.compiled.scratch import working_memory
from router.matching.compiled.segment import Segment

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
    thread: Thread | None = None
    result: list[Segment] = field(default_factory=list)

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
        #: By number of a filter: what holds it, and the position of its posting.
        self._holder: list[_Held | None] = []
        self._position: _Longs = np.zeros(64, np.int64)
        self._free: list[int] = []
        self._point()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def nbytes(self) -> int:
        own = self._position.nbytes + 8 * len(self._holder)
        return own + sum(held.segment.nbytes + held.numbers.nbytes for held in self._held)

    @property
    def merging(self) -> bool:
        """Whether a merge is under way in a thread."""
        return self._merge is not None

    def number(self) -> int:
        """A number for a filter that is about to be added."""
        if self._free:
            return self._free.pop()
        self._holder.append(None)
        if len(self._holder) > len(self._position):
            self._position = np.concatenate([self._position, np.zeros_like(self._position)])
        return len(self._holder) - 1

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
        held = _Held(segment, ordered)
        self._held.append(held)
        self._locate(held)
        self.settle(retired)

    def take_out(self, numbers: Iterable[int]) -> None:
        """These filters are gone; their numbers may be given again."""
        for number in numbers:
            held, position = self._holder[number], self._position[number]
            if held is not None:
                held.segment.interface[position] = 0
                held.numbers[position] = ANONYMOUS
                held.gone += 1
                self._holder[number] = None
            self._free.append(number)

    def retire(self, dense: int) -> None:
        """An interface whose filters have no numbers is not in use any more: counts them as gone."""
        for held in self._held:
            held.gone += int(np.count_nonzero(held.segment.interface == dense))

    def settle(self, retired: _Bools) -> None:
        """Finishes a merge that is done, and begins the next ones that are due."""
        while True:
            if self._merge is not None:
                if self._merge.thread is not None and self._merge.thread.is_alive():
                    break
                self._adopt(self._merge, retired)
            due = self._due()
            if not due:
                break
            merge = self._merge = _Merge(due, [source_of(held.segment, retired) for held in due])
            if sum(source.records for source in merge.sources) > BACKGROUND_RECORDS:
                merge.thread = Thread(target=merge.run, name="cbcb-merge")
                merge.thread.start()
            else:
                merge.run()
        self._point()

    def wait(self, retired: _Bools) -> None:
        """Waits until no merge is under way or due."""
        while self._merge is not None:
            if self._merge.thread is not None:
                self._merge.thread.join()
            self.settle(retired)

    def _due(self) -> list[_Held]:
        """The segments to be merged."""
        for held in self._held:
            if held.gone * 2 > held.segment.filters:
                return [held]
        first, living = len(self._held) - 1, 0
        while first >= 0 and (not living or self._held[first].living < _RATIO * living):
            living += max(1, self._held[first].living)
            first -= 1
        due = self._held[first + 1 :]
        return due if len(due) > 1 else []

    def _adopt(self, merge: _Merge, retired: _Bools) -> None:
        """The result of a merge takes the place of what it was made of."""
        self._merge = None
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
        held = _Held(segment, ordered, int(np.count_nonzero(retired[segment.interface])))
        first = self._held.index(merge.held[0])
        self._held[first : first + len(merge.held)] = [held] if held.living else []
        self._locate(held)

    def _locate(self, held: _Held) -> None:
        known = np.flatnonzero(held.numbers != ANONYMOUS)
        numbers = held.numbers[known]
        self._position[numbers] = known
        for number in numbers.tolist():
            self._holder[number] = held

    def _point(self) -> None:
        """Makes the row that compiled code starts from."""
        memory = working_memory()
        row = np.empty(TABLE_SEGMENTS + len(self._held), np.int64)
        row[TABLE_SEARCH], row[TABLE_COUNT] = memory.address, len(self._held)
        for number, held in enumerate(self._held):
            row[TABLE_SEGMENTS + number] = address_of(held.segment.parts)
            memory.fit_segment(held.segment.slots, held.segment.groups)
        self._row, self.address = row, address_of(row)
