"""When a router issues receiver advertisements: on change, periodically, or both (section 3.5.1)."""

from __future__ import annotations

import random

from router.protocol.clock import earlier
from router.protocol.options import RouterOptions


class AdvertisementSchedule:
    """Decides when the next RA is due.

    Two RAs of one router are at least `ra_min_interval_s` apart. Changes within that time wait and are
    advertised by one RA, which carries p0 as it then is: the last change is never lost.
    """

    def __init__(self, options: RouterOptions, rng: random.Random) -> None:
        self._options = options
        self._rng = rng
        self._due_at: float | None = None
        self._periodic_at: float | None = None
        self._stopped = False
        self._issued_at: float | None = None

    @property
    def pending(self) -> bool:
        """True if an RA is due, now or later (periodic ones apart)."""
        return self._due_at is not None

    def next_deadline(self) -> float | None:
        return earlier(self._due_at, self._periodic_at)

    def start(self, now: float) -> None:
        """The router has its first epoch: periodic advertising begins, unless it was stopped before."""
        if self._options.ra_period_s is not None and not self._stopped:
            # A random phase: routers that were set up together should not speak together.
            self._periodic_at = now + self._rng.random() * self._options.ra_period_s

    def ask(self, now: float, jitter: float | None = None) -> None:
        """p0 should be advertised, at random within `jitter` seconds (default: the option)."""
        within = self._options.ra_jitter_s if jitter is None else jitter
        at = now
        if self._issued_at is not None:
            at = max(at, self._issued_at + self._options.ra_min_interval_s)
        at += self._rng.random() * within
        self._due_at = at if self._due_at is None else min(self._due_at, at)

    def due(self, now: float) -> bool:
        """Whether p0 should be advertised at `now`; the answer yes settles what was asked."""
        if self._periodic_at is not None and now >= self._periodic_at:
            period = self._options.ra_period_s or 0.0
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
