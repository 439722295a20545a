"""Timers of one router, in order of time; a cancelled one is forgotten without being run."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from router.protocol.attention.turns import COMPARISONS_A_TURN, SENDS_A_TURN
from router.protocol.events import Action

#: Timers that are run in one turn.
_TIMERS_A_TURN = 512
#: Timers of which a heap is not searched for cancelled ones.
_FEW = 64


class Timer:
    """Something that is due once.

    Attributes:
        at: when, seconds of the router's clock.
        run: is called with the time; None: it was run or cancelled.
    """

    __slots__ = ("at", "run")

    def __init__(self, at: float, run: Callable[[float], list[Action]]) -> None:
        self.at = at
        self.run: Callable[[float], list[Action]] | None = run

    def cancel(self) -> None:
        self.run = None


class Timers:
    """Timers that are to be run; of equal times, the earlier set first."""

    def __init__(self) -> None:
        #: Timers, some of them cancelled: at most as many as others, and a few.
        self._heap: list[tuple[float, int, Timer]] = []
        self._count = 0
        self._most = _FEW

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, at: float, run: Callable[[float], list[Action]]) -> Timer:
        timer = Timer(at, run)
        self._count += 1
        if len(self._heap) >= self._most:
            # Cancelled timers may be due in years: without this, they would pile up.
            self._heap = [each for each in self._heap if each[2].run is not None]
            heapify(self._heap)
            self._most = max(_FEW, 2 * len(self._heap))
        heappush(self._heap, (at, self._count, timer))
        return timer

    def next_deadline(self) -> float | None:
        heap = self._heap
        while heap and heap[0][2].run is None:
            heappop(heap)
        return heap[0][0] if heap else None

    def tick(self, now: float, work: Callable[[], int] = lambda: 0) -> list[Action]:
        """Runs timers that are due, as many as one turn allows.

        Args:
            work: the constraints that were compared so far.
        """
        actions: list[Action] = []
        most = work() + COMPARISONS_A_TURN
        for _ in range(_TIMERS_A_TURN):
            at = self.next_deadline()
            if at is None or at > now or len(actions) >= SENDS_A_TURN or work() >= most:
                break
            timer = heappop(self._heap)[2]
            run, timer.run = timer.run, None
            assert run is not None
            actions += run(now)
        return actions
