"""The experiment clock: its page in shared memory, with pieces and a slot for each part that measures itself.

Experiment time is a piecewise linear function of a clock in nanoseconds. A piece has a start and a rate.
Pieces are only ever appended. A piece supersedes every earlier piece from its start on, also an announced
piece that has not begun by then.

One process, the owner, makes the file and appends pieces; every part of the run maps the file and reads it
without a system call. All fields are eight bytes wide and aligned: 64-bit processors read and write them
whole. A piece is written before its number, and never changes; a reader that sees the number before the
fields of the piece, on a processor that reorders stores, sees a rate of 0 and keeps the piece before.

::

    head   = magic:u64 slots:u64 capacity:u64 count:u64 zero_s:f64 (experiment second 0 of the schedule, in
             seconds of this clock; NaN before it is known) reserved:3 x u64
    slot   = 8 x f64                 one for each part; see `router.clock.meter`
    piece  = start_ns:u64 (CLOCK_MONOTONIC) experiment_s:f64 rate:f64
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Piece:
    """A span of constant rate, up to the start of the next piece.

    Attributes:
        start_ns: its start, ns of the clock that the pieces map.
        experiment_s: the experiment second at its start.
        rate: experiment seconds per second of that clock; above 0.
    """

    start_ns: int
    experiment_s: float
    rate: float

    def experiment_at(self, time_ns: int) -> float:
        """The experiment second at a time, also outside the piece."""
        return self.experiment_s + (time_ns - self.start_ns) * self.rate / NS

    def time_of(self, experiment_s: float) -> int:
        """The first ns at which an experiment second has come, also outside the piece."""
        time_ns = self.start_ns + math.ceil((experiment_s - self.experiment_s) * NS / self.rate)
        while self.experiment_at(time_ns) < experiment_s:
            time_ns += 1
        return time_ns

    def followed_by(self, start_ns: int, rate: float) -> Piece:
        """The piece that continues this one at another rate."""
        return Piece(start_ns, self.experiment_at(start_ns), rate)


def in_force(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces that come into force, in order of time: those that no later piece supersedes whole."""
    kept: list[Piece] = []
    for piece in pieces:
        while kept and kept[-1].start_ns >= piece.start_ns:
            kept.pop()
        kept.append(piece)
    return kept


class Timeline:
    """The map between a clock and the experiment over all pieces of a run.

    Before the first piece and after the last the time passes at that piece's rate.

    Args:
        pieces: in the order in which they were announced.

    Raises:
        ValueError: there is no piece.
    """

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self.pieces = tuple(in_force(pieces))
        if not self.pieces:
            raise ValueError("a timeline needs a piece")
        self._starts = [piece.start_ns for piece in self.pieces]
        self._seconds = [piece.experiment_s for piece in self.pieces]

    def experiment_at(self, time_ns: int) -> float:
        """The experiment second at a time."""
        return self.pieces[max(0, bisect_right(self._starts, time_ns) - 1)].experiment_at(time_ns)

    def time_of(self, experiment_s: float) -> int:
        """The first ns at which an experiment second has come."""
        return self.pieces[max(0, bisect_right(self._seconds, experiment_s) - 1)].time_of(experiment_s)


_MAGIC = int.from_bytes(b"CBCBCLK1", "little")
_HEAD, _SLOT, _PIECE = 8, 8, 3
_SLOTS, _CAPACITY, _COUNT, _ZERO = 1, 2, 3, 4
#: Pieces that a page can hold; the file is sparse.
CAPACITY = 65_536
#: Numbers of a slot.
SLOT_NUMBERS = _SLOT


class ClockPage:
    """The mapped file; the module describes its fields.

    Use `create` or `open`.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._view = memoryview(memory)
        self._integers = self._view.cast("Q")
        self._numbers = self._view.cast("d")
        self.slots = int(self._integers[_SLOTS])
        self.capacity = int(self._integers[_CAPACITY])
        self._pieces_at = _HEAD + self.slots * _SLOT

    @classmethod
    def create(cls, path: Path, slots: int, first: Piece) -> ClockPage:
        """Makes the file, which must not exist, readable and writable by its owner alone.

        Args:
            slots: parts that measure themselves.
            first: the first piece.

        Raises:
            OSError: the file exists, cannot be made, or the file system has no room for it.
        """
        size = 8 * (_HEAD + slots * _SLOT + CAPACITY * _PIECE)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            # Room for all of it now: a page that cannot be written later would end the process (SIGBUS).
            os.posix_fallocate(descriptor, 0, size)
            memory = mmap.mmap(descriptor, size)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            os.close(descriptor)
        with memoryview(memory) as view, view.cast("Q") as integers, view.cast("d") as numbers:
            integers[_SLOTS], integers[_CAPACITY] = slots, CAPACITY
            numbers[_ZERO] = math.nan
            integers[0] = _MAGIC
        page = cls(memory)
        page.append(first)
        return page

    @classmethod
    def open(cls, path: Path) -> ClockPage:
        """Maps an existing page.

        Raises:
            OSError: the file cannot be opened.
            ValueError: the file is no page of a clock (names it).
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            size = os.fstat(descriptor).st_size
            if size < 8 * _HEAD:
                raise ValueError(f"{path}: not the page of an experiment clock")
            memory = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        with memoryview(memory) as view, view.cast("Q") as integers:
            expected = 8 * (_HEAD + int(integers[_SLOTS]) * _SLOT + int(integers[_CAPACITY]) * _PIECE)
            valid = integers[0] == _MAGIC and size == expected and integers[_COUNT] <= integers[_CAPACITY]
        if not valid:
            raise ValueError(f"{path}: not the page of an experiment clock")
        return cls(memory)

    def close(self) -> None:
        """Unmaps the page; the file stays."""
        for view in (self._integers, self._numbers, self._view):
            view.release()
        # A slot that is still in use keeps the map until it goes.
        with contextlib.suppress(BufferError):
            self._memory.close()

    @property
    def count(self) -> int:
        """The number of pieces so far."""
        return self._integers[_COUNT]

    @property
    def changes(self) -> memoryview[int]:
        """That number in memory."""
        return self._integers[_COUNT : _COUNT + 1]

    def piece(self, number: int) -> Piece | None:
        """The piece of a number below `count`; None while its fields are not visible yet."""
        at = self._pieces_at + number * _PIECE
        rate = self._numbers[at + 2]
        return Piece(self._integers[at], self._numbers[at + 1], rate) if rate > 0 else None

    def pieces(self) -> list[Piece]:
        """All pieces, in the order in which they were announced."""
        return [piece for number in range(self.count) if (piece := self.piece(number)) is not None]

    @property
    def zero_s(self) -> float:
        """Second 0 of the schedule in seconds of this clock; NaN before it is known."""
        return self._numbers[_ZERO]

    @zero_s.setter
    def zero_s(self, value: float) -> None:
        self._numbers[_ZERO] = value

    def append(self, piece: Piece) -> bool:
        """Announces a piece.

        For the owner alone.

        Returns:
            False if the page is full: the last piece stays in force.

        Raises:
            ValueError: the rate is not above 0.
        """
        if not 0 < piece.rate < math.inf:
            raise ValueError(f"rate {piece.rate}: expected a number above 0")
        count = self.count
        if count == self.capacity:
            return False
        at = self._pieces_at + count * _PIECE
        self._integers[at], self._numbers[at + 1] = piece.start_ns, piece.experiment_s
        self._numbers[at + 2] = piece.rate
        self._integers[_COUNT] = count + 1
        return True

    def slot(self, number: int) -> memoryview[float]:
        """The numbers of a slot, writable.

        Raises:
            IndexError: there is no such slot.
        """
        if not 0 <= number < self.slots:
            raise IndexError(f"slot {number}: the page has {self.slots}")
        return self._numbers[_HEAD + number * _SLOT : _HEAD + (number + 1) * _SLOT]
