"""The simulation of a run: virtual time and the agenda of its events.

Time is a whole number of nanoseconds since the simulation began, so that sums are exact and the order of
events does not depend on rounding. Events of equal time happen in the order in which they were scheduled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from router.clock import Piece

NS = 1_000_000_000
#: Wall clock (ns since 1970 UTC) that the logs and captures of every simulation show at its beginning:
#: 2001-09-09 01:46:40 UTC. It is fixed, so that two simulations of one experiment are equal byte for byte.
EPOCH_NS = 10**18
#: Virtual seconds.
WALL = Piece(0, 0.0, 1.0)


class Agenda:
    """The scheduled events, in order of time.

    Attributes:
        now: virtual time, ns.
        now_s: the experiment second, the time of protocol cores.
        piece: maps virtual time to experiment seconds: at rate 1 until the workload begins, as in an
            emulation.
        done: number of events that have happened.
    """

    def __init__(self) -> None:
        self.now = 0
        self.now_s = 0.0
        self.piece = WALL
        self.done = 0
        #: The number of the event that was scheduled last.
        self.added = 0
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []

    def advance(self, time_ns: int) -> None:
        self.now = time_ns
        self.now_s = self.piece.experiment_at(time_ns)

    def at(self, time_ns: int, run: Callable[..., None], *arguments: Any) -> None:
        """Schedules a call of `run(*arguments)` at `time_ns`, which must not have passed."""
        # The number decides between equal times, and keeps the heap from comparing the functions.
        self.added += 1
        heappush(self._heap, (time_ns, self.added, run, arguments))

    @property
    def next_ns(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def step(self) -> None:
        """Performs the next event.

        Raises IndexError if there is none.
        """
        time_ns, _, run, arguments = heappop(self._heap)
        self.advance(time_ns)
        self.done += 1
        run(*arguments)

    def run(self, until_ns: int, most: int) -> bool:
        """Performs at most `most` events up to a time.

        Returns False once that time has come.
        """
        heap, enough = self._heap, self.done + most
        while self.done < enough:
            if not heap or heap[0][0] > until_ns:
                self.advance(max(self.now, until_ns))
                return False
            self.step()
        return True


class Alarm:
    """Calls `ring` at a core's next deadline; a further call of `set` can move the alarm earlier, never
    later.

    After a call that was too early, the core's deadline sets the alarm for the remaining time.

    Args:
        due: gives the first virtual nanosecond at which a deadline has passed.
    """

    def __init__(
        self, agenda: Agenda, ring: Callable[[], None], due: Callable[[float], int] = WALL.time_of
    ) -> None:
        self._agenda = agenda
        self._due_ns = due
        self._ring = ring
        self._at_ns: int | None = None
        #: The deadline of `_at_ns`.
        self._deadline = math.inf

    def set(self, deadline: float | None) -> None:
        """Sets the alarm to `deadline` (may have passed); None leaves it unchanged."""
        if deadline is None or deadline >= self._deadline:
            return
        at_ns = max(self._due_ns(deadline), self._agenda.now)
        if self._at_ns is None or at_ns < self._at_ns:
            self._at_ns, self._deadline = at_ns, deadline
            self._agenda.at(at_ns, self._due, at_ns)

    def rate_changed(self) -> None:
        """Deadlines come at other times from now on."""
        self._deadline = math.inf

    def _due(self, at_ns: int) -> None:
        if at_ns != self._at_ns:
            return  # superseded by an earlier alarm
        self._at_ns, self._deadline = None, math.inf
        self._ring()
