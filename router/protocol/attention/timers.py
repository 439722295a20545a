"""Timers of one router, in order of time; a cancelled one is forgotten without being run."""

from __future__ import annotations

from collections.abc import Callable

from router.protocol.attention.deadlines import FEW, Deadlines
from router.protocol.attention.turns import COMPARISONS_A_TURN, DEADLINES_A_TURN, SENDS_A_TURN
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
    """Timers that are to be run; of equal times, the earlier set first."""

    def __init__(self) -> None:
        #: Timers, some of them cancelled: at most as many as others, and a few.
        self._timers: Deadlines[Timer] = Deadlines()
        self._most = FEW

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, at: float, run: Callable[[float], list[Action]]) -> Timer:
        timer = Timer(at, run)
        if len(self._timers) >= self._most:
            # Cancelled timers may be due in years: without this, they would pile up.
            self._timers.keep_only(_is_set)
            self._most = max(FEW, 2 * len(self._timers))
        self._timers.add(at, timer)
        return timer

    def next_deadline(self) -> float | None:
        at = self._timers.next()
        while at is not None and self._timers.peek().run is None:
            self._timers.take()
            at = self._timers.next()
        return at

    def tick(self, now: float, work: Callable[[], int] = lambda: 0) -> list[Action]:
        """Runs timers that are due, as many as one turn allows.

        Args:
            work: the constraints that were compared so far.
        """
        actions: list[Action] = []
        at = self.next_deadline()
        if at is None or at > now:
            return actions
        most = work() + COMPARISONS_A_TURN
        for _ in range(DEADLINES_A_TURN):
            timer = self._timers.take()
            run, timer.run = timer.run, None
            assert run is not None
            actions += run(now)
            at = self.next_deadline()
            if at is None or at > now or len(actions) >= SENDS_A_TURN or work() >= most:
                break
        return actions


def _is_set(timer: Timer) -> bool:
    return timer.run is not None
