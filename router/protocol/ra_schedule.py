"""When a router issues receiver advertisements: on change, periodically, or both (section 3.5.1)."""

from __future__ import annotations

import random

from router.protocol.clock import earlier
from router.protocol.options import RouterOptions
from router.protocol.timer_times import first_time_drawn, time_drawn


class AdvertisementSchedule:
    """Decides when the next RA is due.

    Two RAs of one router are at least `ra_min_interval_s` apart. Changes within that time wait and are
    advertised by one RA, which carries p0 as it then is: the last change is never lost.

    With exponential timers, a router that has issued an RA may issue the next at the points of a Poisson
    process, `ra_min_interval_s` apart in the mean, and the changes before a point wait for it.
    """

    def __init__(self, options: RouterOptions, rng: random.Random) -> None:
        self._options = options
        self._rng = rng
        self._due_at: float | None = None
        self._periodic_at: float | None = None
        self._stopped = False
        self._issued_at: float | None = None
        #: The next point at which an RA may be issued, with exponential timers.
        self._point_at = 0.0

    @property
    def pending(self) -> bool:
        """True if an RA is due, now or later (periodic ones apart)."""
        return self._due_at is not None

    def next_deadline(self) -> float | None:
        return earlier(self._due_at, self._periodic_at)

    def start(self, now: float) -> None:
        """The router has its first epoch: periodic advertising begins, unless it was stopped before."""
        if self._options.ra_period_s is not None and not self._stopped:
            self._periodic_at = now + first_time_drawn(self._options, self._rng, self._options.ra_period_s)

    def ask(self, now: float, jitter: float | None = None) -> None:
        """p0 should be advertised, at random within `jitter` seconds (default: the option)."""
        within = self._options.ra_jitter_s if jitter is None else jitter
        at = self._allowed_at(now) + self._rng.random() * within
        self._due_at = at if self._due_at is None else min(self._due_at, at)

    def due(self, now: float) -> bool:
        """Whether p0 should be advertised at `now`; the answer yes settles what was asked."""
        if self._periodic_at is not None and now >= self._periodic_at:
            period = time_drawn(self._options, self._rng, self._options.ra_period_s or 0.0)
            on_time = self._periodic_at + period
            # One RA however many periods were slept through.
            self._periodic_at = on_time if on_time > now else now + period
            self.ask(now)
        if self._due_at is None or now < self._due_at:
            return False
        self._due_at = None
        return True

    def stop(self) -> None:
        """Periodic advertising ends, or never begins."""
        self._stopped = True
        self._periodic_at = None

    def issued(self, now: float) -> None:
        """An RA went out."""
        self._issued_at = now

    def _allowed_at(self, now: float) -> float:
        """The earliest time, from `now` on, at which an RA may be issued."""
        least_s = self._options.ra_min_interval_s
        if self._issued_at is None:
            return now
        if self._options.timers == "fixed":
            return max(now, self._issued_at + least_s)
        # Without memory: the points that passed unused need not be drawn.
        if self._point_at <= now:
            self._point_at = now + time_drawn(self._options, self._rng, least_s)
        return self._point_at
