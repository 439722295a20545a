"""Experiment clocks of several pieces."""

from __future__ import annotations

import random

from captures.rundir.clock import Clock
from router.clock import NS, Piece


def clock_of(pieces: int) -> Clock:
    """Returns a clock of several rates, equal for each call."""
    rng = random.Random(pieces)
    made = [Piece(1_700_000_000 * NS, -5.3, 1.0 if pieces > 1 else 7.3)]
    for _ in range(pieces - 1):
        made.append(made[-1].followed_by(made[-1].start_ns + rng.randrange(NS, 20 * NS), rng.uniform(1, 90)))
    return Clock(made)


def times_of(clock: Clock) -> list[int]:
    """Returns times before, in and after every piece, and beside its start, ns since 1970 UTC."""
    starts = [piece.start_ns for piece in clock.pieces]
    beside = [start + by for start in starts for by in (-NS, -1, 0, 1, 333_333_333)]
    return [*beside, starts[-1] + 100 * NS + 7]


def lasting_s(clock: Clock, time_ns: int, length_s: float) -> float:
    """Returns the wall seconds that experiment seconds last from a time on."""
    begin_s = clock.experiment_at(time_ns)
    return (clock.time_of(begin_s + length_s) - clock.time_of(begin_s)) / NS
