"""Estimates behind the timeouts of the SR/UR protocol (section 3.5.3)."""

from __future__ import annotations

from collections import deque

#: Experiment seconds taken for the round trip to a neighbour of which nothing has been measured: two hops of
#: a link of 10 ms, at rate 1 of the clock; a delay is wall time, and takes more of them at a faster rate.
#: The first whole UR replaces it. A value that is too small makes the first UR late, one that is too great
#: makes it partial.
INITIAL_ROUND_TRIP = 0.02
#: Round trips of one interface that are remembered.
_SAMPLES = 8
#: Weight of the past in the estimate of the computing time.
_DECAY = 0.875


class RoundTripEstimator:
    """t_c for each interface, and t_p.

    A round trip is measured from an SR sent through an interface to the whole UR that answers it. It holds
    what the routers beyond it took too, so the smallest of the last few stands for the neighbour's own: it
    errs to the long side, and too long a t_c makes a router give up early rather than answer too late.
    """

    def __init__(self) -> None:
        self._samples: dict[int, deque[float]] = {}
        self._compute = 0.0

    def measured(self, interface: int, seconds: float) -> None:
        """A whole UR came through `interface` so many seconds after its SR."""
        self._samples.setdefault(interface, deque(maxlen=_SAMPLES)).append(max(0.0, seconds))

    def computed(self, seconds: float) -> None:
        """The driver saw a frame of the protocol take so long to handle: a rising value counts at once."""
        self._compute = max(seconds, _DECAY * self._compute)

    def round_trip(self, interface: int) -> float:
        """t_c: seconds from here to the neighbour behind `interface` and back."""
        return min(self._samples.get(interface, ()), default=INITIAL_ROUND_TRIP)

    def time_left(self, timeout: float, parent: int) -> float:
        """t_d = t - t_c - t_p (seconds) for an SR that came in on `parent`; negative: no time is left."""
        return timeout - self.round_trip(parent) - self._compute
