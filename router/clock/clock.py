"""Clocks that give experiment seconds: one at a fixed rate for a part that runs alone, one read from a page.

Protocol cores, workload and schedule are driven by `now`; how long to wait for one of their deadlines, in
wall seconds, is `timeout`. Times of the machine itself (sockets, retries, the reassembly of fragments) stay
in wall seconds of `time.monotonic`.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from router.clock import NS, ClockPage, Piece, Timeline

#: A rise of the rate is announced this long before it takes effect, and no part sleeps longer for a deadline
#: in experiment time: so every part is awake, and reads the new rate, before it begins. Wall seconds.
LEAD_S = 0.5
#: The last ns of a signed number of 64 bits.
NEVER = (1 << 63) - 1


class Reading(NamedTuple):
    """The clocks at one moment: experiment seconds, wall clock (ns since 1970 UTC), and the rate."""

    experiment_s: float
    wall_ns: int
    rate: float


class ExperimentClock:
    """The clock that the parts of a run read: here that of one rate, of a part that runs alone.

    Second 0 is that of `time.monotonic`, so that the clocks of two processes agree. Compiled code reads the
    clock by itself: a `segment` holds to its end, or until `changes` is another number.

    Attributes:
        changes: an unsigned number of 64 bits that changes with the pieces.
        latest: the latest experiment second that was read; compiled code sets it.
    """

    changes = memoryview(bytes(8))
    latest = -math.inf

    def __init__(self, rate: float = 1.0) -> None:
        self._rate = rate

    def now(self) -> float:
        """The experiment second; never less than at an earlier call."""
        return time.monotonic() * self._rate

    @property
    def rate(self) -> float:
        """Experiment seconds per wall second at present."""
        return self._rate

    def segment(self) -> tuple[Piece, int, int]:
        """The piece in force, the time at which it ends (ns of `time.monotonic_ns`), and `changes`."""
        return Piece(0, 0.0, self._rate), NEVER, 0

    def waited(self, since: float) -> float:
        """Wall seconds since the clock showed `since` (experiment seconds); 0 if that has not come."""
        return max(0.0, time.monotonic() - since / self._rate)

    def timeout(self, deadline: float) -> float:
        """Wall seconds to sleep before `deadline` (experiment seconds) may have come; 0 if it has.

        The caller looks at the clock again after the sleep: it may end before the deadline.
        """
        return max(0.0, deadline / self._rate - time.monotonic())

    def reading(self) -> Reading:
        """Both clocks at this moment, for a recording."""
        return Reading(self.now(), time.time_ns(), self.rate)


class SharedClock(ExperimentClock):
    """The clock of a page.

    Reading it takes a look at the number of pieces and at the monotonic clock.
    """

    def __init__(self, page: ClockPage) -> None:
        self.page, self.changes = page, page.changes
        self._count = 0
        self._piece = Piece(0, 0.0, 1.0)
        #: The announced pieces after `_piece`, nearest first, and when the nearest begins.
        self._next: Piece | None = None
        self._until_ns = 0

    def now(self) -> float:
        now_ns = time.monotonic_ns()
        if now_ns >= self._until_ns or self.page.count != self._count:
            self._refresh(now_ns)
        piece = self._piece
        now = piece.experiment_s + (now_ns - piece.start_ns) * piece.rate / NS
        # A slower piece may become visible a moment after its start.
        if now < self.latest:
            return self.latest
        self.latest = now
        return now

    @property
    def rate(self) -> float:
        self.now()
        return self._piece.rate

    def segment(self) -> tuple[Piece, int, int]:
        self.now()
        return self._piece, self._until_ns, self._count

    def waited(self, since: float) -> float:
        waited_s = (self.now() - since) / self._piece.rate
        if since < self._piece.experiment_s:
            # The rate was another when it came: what became late at a high rate, and is done after the rate
            # has fallen, has waited far less than the present rate makes of it.
            came_ns = Timeline(self.page.pieces()).time_of(since)
            waited_s = (time.monotonic_ns() - came_ns) / NS
        return max(0.0, waited_s)

    def timeout(self, deadline: float) -> float:
        if self.now() >= deadline:
            return 0.0
        due_ns = self._piece.time_of(deadline)
        if self._next is not None and due_ns > self._next.start_ns:
            due_ns = max(self._next.start_ns, self._next.time_of(deadline))
        return min(LEAD_S, max(0.0, (due_ns - time.monotonic_ns()) / NS))

    def _refresh(self, now_ns: int) -> None:
        """Finds the piece in force: the last one that has begun."""
        page = self.page
        count = self._count = page.count
        following: Piece | None = None
        for number in range(count - 1, -1, -1):
            piece = page.piece(number)
            if piece is None:  # not visible yet: looked at once more at the next reading
                self._count = number
                continue
            if piece.start_ns <= now_ns or number == 0:
                self._piece = piece
                break
            if following is None or piece.start_ns < following.start_ns:
                following = piece
        self._next = following
        self._until_ns = NEVER if following is None else following.start_ns
