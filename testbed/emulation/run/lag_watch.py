"""Measures the lag of an emulation while it runs, and lets the governor choose the rate of its clock.

A thread of the runner, while the workload is played. The predicates of second 0 cause more frames at once
than anything later, at any rate of the clock: the driver paces them by the routers' lag, and lag counts only
from the time at which they have spread. Until then a governed clock runs at rate 1, or at its least rate as
soon as something is late, so that no message of the workload is due while they spread.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Self

import numpy as np
import psutil

from captures.rundir.measures import Answers, LagReport, PartLag, PartName
from router.clock.meter import Meter
from testbed.emulation.run.governor import EmulationClock, Governor, Limits, Seen

_REQUEST = b'{"id":0,"method":"version","params":[]}'


class SwitchProbe:
    """Asks each daemon for its version, one question at a time.

    The main thread of ovs-vswitchd answers between two rounds of forwarding (with the kernel datapath, of
    frames without a flow): an answer takes as long as a frame waits for its round.

    A daemon that is not there counts nothing: its supervision reports that.
    """

    def __init__(self, controls: Sequence[Path]) -> None:
        self._controls = list(controls)
        #: Daemon -> the connection on which it was asked, and when.
        self._asked: dict[Path, tuple[socket.socket, float]] = {}

    def lag_s(self, patience_s: float) -> float:
        """Wall seconds that the slowest answer takes, or has taken so far.

        Args:
            patience_s: wall seconds to wait for answers; the next call waits for those that are left.
        """
        for path in self._controls:
            self._ask(path)
        lag = 0.0
        deadline = time.monotonic() + patience_s
        while self._asked:
            paths: dict[Any, Path] = {connection: path for path, (connection, _) in self._asked.items()}
            # It polls: the descriptors of a large network exceed the 1,024 of select(2).
            ready = [paths[each] for each in wait([*paths], max(0.0, deadline - time.monotonic()))]
            now = time.monotonic()
            if not ready:
                return max(lag, *(now - asked for _, asked in self._asked.values()))
            for path in ready:
                connection, asked = self._asked.pop(path)
                connection.close()
                lag = max(lag, now - asked)
        return lag

    def close(self) -> None:
        for connection, _ in self._asked.values():
            connection.close()

    def _ask(self, path: Path) -> None:
        if path in self._asked:
            return
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        try:
            connection.connect(str(path))
            connection.send(_REQUEST)
        except OSError:
            connection.close()
        else:
            self._asked[path] = connection, time.monotonic()


#: Rate of a governed clock until the opening predicates have spread.
OPENING_RATE = 1.0
#: Wall seconds of lag with which a router keeps up with the opening predicates.
_KEEPS_UP_S = 0.05
#: Wall seconds of lag from which the opening predicates take longer than the experiment may pass at rate 1.
_FALLS_BEHIND_S = 1.0
#: Wall seconds between two looks, and for which a look waits for Open vSwitch.
_PERIOD_S = 0.25
_PROBE_S = 0.1
#: Wall seconds in which a part that was away has met what waited for it.
_BACK_S = 1.0


class LagWatch:
    """The thread; a context manager: it runs inside the block.

    Args:
        governor: chooses the rate; None: the rate is fixed.
        due_s: the times of the items of the workload and of the timed events, ascending, experiment seconds.
    """

    def __init__(
        self,
        clock: EmulationClock,
        switches: Sequence[Path],
        limits: Limits,
        governor: Governor | None = None,
        due_s: Sequence[float] = (),
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._governor = governor
        self._due_s = due_s
        self._probe = SwitchProbe(switches)
        self._switches = Meter()
        self._opened = self._over = False
        self._from_s: float | None = None
        #: Parts that are away on purpose, and what was measured before the first of them was.
        self._away = 0
        self._back_at = 0.0
        self._before: list[list[float]] | None = None
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
        self._probe.close()

    # The pace of the opening predicates (`testbed.experiments.workload.driver.Opening`).

    def keeps_up(self) -> bool:
        """Whether no router was late since the last look."""
        return all(meter.recent < _KEEPS_UP_S for meter in self._clock.meters)

    def opened(self) -> None:
        """The routers have confirmed the opening predicates."""
        self._opened = True
        self._wake.set()

    def excuse(self) -> None:
        """A part is away on purpose from now on: the lag that this causes does not count."""
        with self._lock:
            self._away += 1
            if self._before is None:
                self._before = [meter.saved() for meter in self._meters]

    def over(self) -> None:
        """A part is back: lag counts again when every part keeps up and none is away."""
        with self._lock:
            self._away -= 1
            self._back_at = time.monotonic()

    @property
    def _meters(self) -> tuple[Meter, ...]:
        return (*self._clock.meters, self._switches)

    def _restore(self) -> None:
        """Forgets the lag since a part was away."""
        with self._lock:
            if self._before is not None:
                for meter, slot in zip(self._meters, self._before, strict=True):
                    meter.restore(slot)
                self._before = None

    def report(self, answer_delays_s: Sequence[float]) -> LagReport:
        """The greatest lags of all parts until now.

        Args:
            answer_delays_s: wall seconds from each request of an application to its answer.
        """
        self._restore()
        return LagReport(
            from_s=self._from_s or 0.0,
            bound_s=self._limits.bound_s,
            bound_wall_s=self._limits.bound_wall_s,
            parts=[
                *(
                    PartLag(**self._measured("router", meter), node=node)
                    for node, meter in enumerate(self._clock.routers)
                ),
                self._measured("workload", self._clock.workload),
                self._measured("switches", self._switches, turns=False),
                self._measured("captures", self._clock.captures),
                self._measured("controller", self._clock.controller),
            ],
            answers=_answers(answer_delays_s),
        )

    def _measured(self, part: PartName, meter: Meter, *, turns: bool = True) -> PartLag:
        """The lag of a part, and the turns of its loop."""
        measured, zero_s = meter.measured(), self._clock.zero_s
        found = PartLag(
            part=part,
            lag_s=measured.lag_s,
            lag_wall_s=measured.lag_wall_s,
            lag_at_s=measured.lag_at_s - zero_s if measured.lag_s else 0.0,
        )
        if turns:
            found["turn_s"], found["turn_of"] = measured.turn_s, measured.turn_of
            found["turn_at_s"] = measured.turn_at_s - zero_s if measured.turn_s else 0.0
            found["turn_cpu_s"] = measured.turn_cpu_s
        return found

    def _watch(self) -> None:
        busy = psutil.cpu_times()
        looked_at, looked_s = time.monotonic(), 0.0
        slowed = False
        while not self._over:
            self._wake.wait(_PERIOD_S)
            self._wake.clear()
            self._switches.late(self._probe.lag_s(_PROBE_S), self._clock.clock)
            before, busy = busy, psutil.cpu_times()
            lag = max(meter.take_recent() for meter in self._meters)
            back = not self._away and time.monotonic() - self._back_at > _BACK_S
            if self._before is not None and back and lag < _KEEPS_UP_S:
                self._restore()
            if self._from_s is None:
                # The opening predicates, set from second 0 on, take longer than the clock gives.
                behind = self._clock.now_s > 0 and lag > _FALLS_BEHIND_S
                # The look that begins with the last confirmation sees less than the frames that follow it.
                if self._opened and lag < _KEEPS_UP_S and time.monotonic() - looked_at > _PERIOD_S / 2:
                    self._begin()
                elif self._governor is not None and not slowed and behind:
                    slowed = True
                    self._clock.set_rate(self._limits.low)
            elif self._governor is not None and self._before is None:
                now_s = self._clock.now_s
                done, due = bisect_right(self._due_s, looked_s), bisect_right(self._due_s, now_s)
                next_s = self._due_s[due] - now_s if due < len(self._due_s) else math.inf
                idle, in_force = _idle(before, busy), self._clock.clock.rate
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
        for meter in self._meters:
            meter.reset()
        if self._governor is not None:
            self._clock.set_rate(self._governor.rate)


def _answers(delays_s: Sequence[float]) -> Answers | None:
    if not delays_s:
        return None
    median, p99, most = np.percentile(delays_s, [50, 99, 100])
    return Answers(median_s=round(float(median), 6), p99_s=round(float(p99), 6), max_s=round(float(most), 6))


def _idle(before: Sequence[float], after: Sequence[float]) -> float:
    """The share of the processors' time between two readings that was idle, or that of nicer processes: they
    give way."""
    # Behind the first eight: times of guests, which are part of the others.
    spent = [b - a for a, b in zip(before[:8], after[:8], strict=True)]
    _, nice, _, idle, waiting, *_ = spent
    total = sum(spent)
    return (nice + idle + waiting) / total if total > 0 else 1.0
