"""Experiment time as a piecewise linear function of a clock in nanoseconds; pure.

A piece says from which time on the experiment passes at which rate. Pieces are only ever appended. A piece
supersedes every earlier piece from its start on, also an announced piece that has not begun by then.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

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

    def piece_at(self, time_ns: int) -> Piece:
        """The piece in force at a time."""
        return self.pieces[max(0, bisect_right(self._starts, time_ns) - 1)]

    def experiment_at(self, time_ns: int) -> float:
        """The experiment second at a time."""
        return self.piece_at(time_ns).experiment_at(time_ns)

    def time_of(self, experiment_s: float) -> int:
        """The first ns at which an experiment second has come."""
        return self.pieces[max(0, bisect_right(self._seconds, experiment_s) - 1)].time_of(experiment_s)
