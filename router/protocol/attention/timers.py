"""Timers of one router, in order of time; a cancelled one is forgotten without being run."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from router.protocol.events import Action


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
    """The timers that have neither been run nor cancelled; of equal times, the earlier set first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._count = 0

    def set(self, at: float, run: Callable[[float], list[Action]]) -> Timer:
        timer = Timer(at, run)
        self._count += 1
        heappush(self._heap, (at, self._count, timer))
        return timer

    def next_deadline(self) -> float | None:
        heap = self._heap
        while heap and heap[0][2].run is None:
            heappop(heap)
        return heap[0][0] if heap else None

    def tick(self, now: float) -> list[Action]:
        """Runs the timers that are due."""
        actions: list[Action] = []
        while (at := self.next_deadline()) is not None and at <= now:
            timer = heappop(self._heap)[2]
            run, timer.run = timer.run, None
            assert run is not None
            actions += run(now)
        return actions
