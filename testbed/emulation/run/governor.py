"""The decision on the rate of the experiment clock (`time_scale = "auto"`); pure.

Lag is what must stay small; it grows before it is too large, so the governor aims far below the bound. Idle
processors say how much faster the experiment may become: without them the rate rises by small steps, and only
while nothing waits. Processors that are busy by themselves do not slow the experiment down: what counts is
whether its own parts wait.

Lag is seen only when what waited is done, which is late when many processes wait at once. So the rate for
stretches in which items are due (the working rate) rises only by what was seen while such items were done at
that rate. Stretches without items pass faster, and the rate is back at the working rate before the next item.
"""

from __future__ import annotations

from dataclasses import dataclass

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
        """The rate of the range that is nearest to `rate`."""
        return min(self.high, max(self.low, rate))

    def share(self, lag_wall_s: float, rate: float) -> float:
        """The share of the bound that a lag is."""
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
        limits: the range.
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
