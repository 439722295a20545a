"""Measures the lag of an emulation while it runs, and lets the governor choose the rate of its clock.

A thread of the runner, while the workload is played. The predicates of second 0 cause more frames at once
than anything later, at any rate of the clock: the driver paces them by the routers' lag, and lag counts only
from the time at which they have spread. Until then a governed clock runs at rate 1, or at its least rate as
soon as something is late, so that no message of the workload is due while they spread.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

import numpy as np

from captures.rundir.measures import Answers, LagReport, PartLag
from testbed.emulation.run.governor import EmulationClock, Governor, Limits, Seen
from testbed.emulation.run.lag_meters import KEEPS_UP_S, LagMeters
from testbed.support.errors import RunError

#: Rate of a governed clock until the opening predicates have spread.
OPENING_RATE = 1.0
#: Wall seconds of lag from which the opening predicates take longer than the experiment may pass at rate 1.
_FALLS_BEHIND_S = 1.0
#: Wall seconds between two looks.
_PERIOD_S = 0.25
#: Wall seconds in which a part that was away has met what waited for it.
_BACK_S = 1.0


class LagWatch:
    """The thread; a context manager: it runs inside the block.

    Args:
        meters: of all parts, by machine.
        governor: chooses the rate; None: the rate is fixed.
        due_s: the times of the items of the workload and of the timed events, ascending, experiment seconds.
    """

    def __init__(
        self,
        clock: EmulationClock,
        meters: Sequence[LagMeters],
        limits: Limits,
        governor: Governor | None = None,
        due_s: Sequence[float] = (),
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._governor = governor
        self._due_s = due_s
        self._meters = meters
        self._opened = self._over = False
        self._from_s: float | None = None
        #: Parts that are away on purpose; whether lag has not counted since the first of them was.
        self._away = 0
        self._excused = False
        self._back_at = 0.0
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lag", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._wake.set()
        self._thread.join()
        for meters in self._meters:
            meters.close()

    # The pace of the opening predicates (`testbed.experiments.workload.driver.Opening`).

    def keeps_up(self) -> bool:
        """Whether no part that measures itself was late since the last look."""
        return all(meters.keep_up() for meters in self._meters)

    def opened(self) -> None:
        """The routers have confirmed the opening predicates."""
        self._opened = True
        self._wake.set()

    def excuse(self) -> None:
        """A part is away on purpose from now on: the lag that this causes does not count."""
        with self._lock:
            self._away += 1
            if not self._excused:
                self._excused = True
                for meters in self._meters:
                    meters.keep()

    def over(self) -> None:
        """A part is back: lag counts again when every part keeps up and none is away."""
        with self._lock:
            self._away -= 1
            self._back_at = time.monotonic()

    def _restore(self) -> None:
        """Forgets the lag since a part was away."""
        with self._lock:
            self._excused = False
            for meters in self._meters:
                with suppress(RunError):  # its machine is lost
                    meters.restore()

    def report(self, answer_delays_s: Sequence[float]) -> LagReport:
        """The greatest lags of all parts until now.

        Args:
            answer_delays_s: wall seconds from each request of an application to its answer.
        """
        self._restore()
        parts: list[PartLag] = []
        for meters in self._meters:
            with suppress(RunError):
                parts += meters.report()
        return LagReport(
            from_s=self._from_s or 0.0,
            bound_s=self._limits.bound_s,
            bound_wall_s=self._limits.bound_wall_s,
            parts=parts,
            answers=_answers(answer_delays_s),
        )

    def _watch(self) -> None:
        with suppress(RunError):  # a machine is lost, which the runner finds out
            self._look()

    def _look(self) -> None:
        looked_at, looked_s = time.monotonic(), 0.0
        slowed = False
        while not self._over:
            self._wake.wait(_PERIOD_S)
            self._wake.clear()
            lags, idles = zip(*(meters.look() for meters in self._meters), strict=True)
            lag = max(lags)
            back = not self._away and time.monotonic() - self._back_at > _BACK_S
            if self._excused and back and lag < KEEPS_UP_S:
                self._restore()
            if self._from_s is None:
                # The opening predicates, set from second 0 on, take longer than the clock gives.
                behind = self._clock.now_s > 0 and lag > _FALLS_BEHIND_S
                # The look that begins with the last confirmation sees less than the frames that follow it.
                if self._opened and lag < KEEPS_UP_S and time.monotonic() - looked_at > _PERIOD_S / 2:
                    self._begin()
                elif self._governor is not None and not slowed and behind:
                    slowed = True
                    self._clock.set_rate(self._limits.low)
            elif self._governor is not None and not self._excused:
                now_s = self._clock.now_s
                done, due = bisect_right(self._due_s, looked_s), bisect_right(self._due_s, now_s)
                next_s = self._due_s[due] - now_s if due < len(self._due_s) else math.inf
                idle, in_force = min(idles), self._clock.clock.rate
                rate = self._governor.decide(
                    Seen(time.monotonic(), lag, idle, in_force, items=due - done, next_s=next_s)
                )
                if rate is not None:
                    self._clock.set_rate(rate)
                looked_s = now_s
            looked_at = time.monotonic()

    def _begin(self) -> None:
        """Counts lag from now on."""
        self._from_s = self._clock.now_s
        for meters in self._meters:
            meters.reset()
        if self._governor is not None:
            self._clock.set_rate(self._governor.rate)


def _answers(delays_s: Sequence[float]) -> Answers | None:
    if not delays_s:
        return None
    median, p99, most = np.percentile(delays_s, [50, 99, 100])
    return Answers(median_s=round(float(median), 6), p99_s=round(float(p99), 6), max_s=round(float(most), 6))
