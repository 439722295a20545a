"""The experiment clock of an emulation, and the decision on its rate (`time_scale = "auto"`).

Lag is what must stay small; it grows before it is too large, so the governor aims far below the bound. Idle
processors say how much faster the experiment may become: without them the rate rises by small steps, and only
while nothing waits. Processors that are busy by themselves do not slow the experiment down: what counts is
whether its own parts wait.

Lag is seen only when what waited is done, which is late when many processes wait at once. So the rate for
stretches in which items are due (the working rate) rises only by what was seen while such items were done at
that rate. Stretches without items pass faster, and the rate is back at the working rate before the next item.

`EmulationClock` owns the clock and announces its pieces. docs/explanation/clock.md has the rules.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from captures.rundir import RunLayout
from captures.rundir.clock import CLOCK, ClockPiece
from router.clock import NS, ClockPage, Piece
from router.clock.clock import LEAD_S, SharedClock
from router.clock.meter import Meter

#: Least rate of a governed clock.
SLOWEST = 0.05
#: Share of the estimated rate with which a governed clock begins: the estimate knows nothing of bursts.
CAUTION = 0.1
#: Share of the bound at which the rate falls, and below which it may rise.
_FALL_AT, _RISE_BELOW = 0.25, 0.08
#: Least and greatest factor of one fall, and of one rise.
_FALL_MOST, _FALL_LEAST = 0.25, 0.8
_RISE_LEAST, _RISE_MOST = 1.1, 2.0
#: Share of the processors' time that a rise aims to use.
_USED = 0.8
#: A busy machine with a lag above this share of the bound gets a slower experiment before it is late.
_CAUTION_AT, _CAUTION, _STARVED = 0.12, 0.9, 0.03
#: Wall seconds without a rise after a fall: queues empty first.
_PAUSE_S = 2.0
#: After a fall, what waited already shows the same lag until it is done: wall seconds without another fall,
#: beside the lag (up to a limit), unless the lag has grown by this factor.
_EFFECT_S, _EFFECT_MOST_S, _GROWN = 0.5, 5.0, 1.5
#: Up to this share of the rate at which it fell last, the rate rises as with idle processors, by this factor.
_KNOWN_GOOD, _RISE_KNOWN = 0.5, 1.6
#: Wall seconds from a look to the time at which a lower rate, chosen at the next look, is in force.
_LOOK_S = 0.75
#: Rates closer than this factor are not worth a new piece.
_WORTHWHILE = 1.05


@dataclass(frozen=True, slots=True)
class Limits:
    """The range of the governor.

    Attributes:
        low, high: least and greatest rate.
        bound_s: greatest lag of a valid run, experiment seconds.
        bound_wall_s: likewise, wall seconds.
    """

    low: float
    high: float
    bound_s: float
    bound_wall_s: float

    def clamp(self, rate: float) -> float:
        return min(self.high, max(self.low, rate))

    def share(self, lag_wall_s: float, rate: float) -> float:
        return max(lag_wall_s * rate / self.bound_s, lag_wall_s / self.bound_wall_s)


@dataclass(frozen=True, slots=True)
class Seen:
    """Measurements since the last decision.

    Attributes:
        at_s: the time, wall seconds.
        lag_wall_s: greatest lag of any part, wall seconds.
        idle: share of the processors' time that was idle, 0 to 1.
        rate: the rate in force; a higher one is announced before it comes into force.
        items: items of the workload and timed events that fell due.
        next_s: experiment seconds until the next of them.
    """

    at_s: float
    lag_wall_s: float
    idle: float
    rate: float
    items: int
    next_s: float


class Governor:
    """Chooses rates.

    Args:
        rate: the first working rate; it is brought into the range.

    Attributes:
        rate: the rate chosen last.
    """

    def __init__(self, limits: Limits, rate: float) -> None:
        self._limits = limits
        self.rate = self._working = limits.clamp(rate)
        self._seen_rate = 0.0
        self._fell_at = float("-inf")
        self._fell_from = self._fell_with_s = 0.0

    def decide(self, seen: Seen) -> float | None:
        """Returns the new rate, or None if the rate stays."""
        factor = self._factor(seen)
        self._seen_rate = seen.rate
        wanted = self._limits.clamp((self.rate if factor >= 1 else min(self.rate, seen.rate)) * factor)
        if factor < 1:
            self._fell_at, self._fell_from, self._fell_with_s = seen.at_s, self.rate, seen.lag_wall_s
            self._working = min(self._working, wanted)
        elif seen.items and factor > 1:
            self._working = max(self._working, min(wanted, self._limits.clamp(self._working * factor)))
        wanted = min(wanted, max(self._working, seen.next_s / _LOOK_S))
        if max(wanted / self.rate, self.rate / wanted) < _WORTHWHILE:
            return None
        self.rate = wanted
        return wanted

    def _factor(self, seen: Seen) -> float:
        share = self._limits.share(seen.lag_wall_s, self.rate)
        since_s = seen.at_s - self._fell_at
        effect_s = min(_EFFECT_MOST_S, self._fell_with_s) + _EFFECT_S
        if since_s < effect_s and seen.lag_wall_s < _GROWN * self._fell_with_s:
            return 1.0
        if share >= _FALL_AT:
            return min(_FALL_LEAST, max(_FALL_MOST, _FALL_AT / share))
        if share >= _CAUTION_AT and seen.idle < _STARVED:
            return _CAUTION
        if share < _RISE_BELOW and since_s >= _PAUSE_S and self._seen_rate == seen.rate == self.rate:
            rise = min(_RISE_MOST, max(_RISE_LEAST, _USED / max(1 - seen.idle, _USED / _RISE_MOST)))
            return max(rise, _RISE_KNOWN) if self.rate < _KNOWN_GOOD * self._fell_from else rise
        return 1.0


#: Experiment seconds per wall second while the network is brought up.
BRING_UP_RATE = 1.0
#: A lower rate is announced this long before it takes effect, so that few readers are ahead of it.
_SHORT_LEAD_S = 0.005
#: As long as it takes to tell other machines.
FOLLOWED_LEAD_S = 0.05


class EmulationClock:
    """The page of a run and its pieces.

    Args:
        run: the run folder, to which the pieces are written.
        path: the file of the page, which must not exist.
        nodes: number of routers, whose slots are the first.

    Attributes:
        meters: of all parts that write to the page.
        followers: are called with each further piece, for the pages of other machines.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(self, run: RunLayout, path: Path, nodes: int) -> None:
        self.path = path
        self._run = run
        self.followers: list[Callable[[Piece], None]] = []
        self.page = ClockPage.create(path, nodes + 3, Piece(time.monotonic_ns(), 0.0, BRING_UP_RATE))
        self.clock = SharedClock(self.page)
        self.captures_slot, self.controller_slot = nodes + 1, nodes + 2
        self.meters = [Meter(self.page.slot(slot)) for slot in range(nodes + 3)]
        self.routers = self.meters[:nodes]
        self.workload, self.captures, self.controller = self.meters[nodes:]

    @property
    def zero_s(self) -> float:
        """Second 0 of the workload in seconds of the clock; NaN before it is known."""
        return self.page.zero_s

    @property
    def now_s(self) -> float:
        """The second of the workload; NaN before its beginning is known."""
        return self.clock.now() - self.page.zero_s

    def begin(self, rate: float) -> float:
        """Announces the first rate of the workload.

        Returns:
            Second 0 of the workload, in seconds of the clock: in half a wall second.
        """
        piece = self._announce(rate, LEAD_S, opens=True)
        assert piece is not None
        for each in self.page.pieces():
            self._log(each)
        return piece.experiment_s

    def set_rate(self, rate: float) -> None:
        """Announces another rate of the workload: a higher one for half a wall second from now, a lower one
        for now.
        """
        short_s = FOLLOWED_LEAD_S if self.followers else _SHORT_LEAD_S
        piece = self._announce(rate, LEAD_S if rate > self.clock.rate else short_s)
        if piece is not None:
            self._log(piece)

    def end(self) -> None:
        """Notes the clock at the end: between two notes, the wall clock may have been set."""
        now_ns = time.monotonic_ns()
        before = next(piece for piece in reversed(self.page.pieces()) if piece.start_ns < now_ns)
        self._log(before.followed_by(now_ns, before.rate))

    def _announce(self, rate: float, lead_s: float, *, opens: bool = False) -> Piece | None:
        """Adds a piece, with which the workload may open; None if the page is full."""
        start_ns = time.monotonic_ns() + round(lead_s * NS)
        before = next(piece for piece in reversed(self.page.pieces()) if piece.start_ns < start_ns)
        piece = before.followed_by(start_ns, rate)
        if not self.page.append(piece):
            return None
        if opens:
            self.page.zero_s = piece.experiment_s
        for follow in self.followers:
            follow(piece)
        return piece

    def _log(self, piece: Piece) -> None:
        wall_ns = time.time_ns() - time.monotonic_ns()
        CLOCK.append(
            self._run,
            ClockPiece(
                t_ns=piece.start_ns + wall_ns,
                monotonic_ns=piece.start_ns,
                experiment_s=piece.experiment_s - self.page.zero_s,
                rate=piece.rate,
            ),
        )
