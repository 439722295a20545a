"""Virtual time and the agenda of what is due in it.

Time is a whole number of nanoseconds since the simulation began, so that sums are exact and the order of
events does not depend on rounding. Events of one moment happen in the order in which they were put down.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

NS = 1_000_000_000
#: Wall clock (ns since 1970 UTC) that the logs and captures of every simulation show at its beginning:
#: 2001-09-09 01:46:40 UTC. It is fixed, so that two simulations of one experiment are equal byte for byte.
EPOCH_NS = 10**18


def seconds(time_ns: int) -> float:
    """Virtual seconds, as protocol cores take them."""
    return time_ns / NS


def due_ns(deadline: float) -> int:
    """The first nanosecond at which a core sees that `deadline` (virtual seconds) has come."""
    time_ns = round(deadline * NS)
    while time_ns / NS < deadline:
        time_ns += 1
    return time_ns


class Agenda:
    """What will happen, in order of time.

    Attributes:
        now: virtual time, ns.
        done: events that have happened.
    """

    def __init__(self) -> None:
        self.now = 0
        self.done = 0
        self._added = 0
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []

    def at(self, time_ns: int, run: Callable[..., None], *arguments: Any) -> None:
        """Has `run(*arguments)` called at `time_ns`, which must not have passed."""
        # The number decides between equal times, and keeps the heap from comparing anything else.
        self._added += 1
        heappush(self._heap, (time_ns, self._added, run, arguments))

    @property
    def next_ns(self) -> int | None:
        """When the next event is due; None if there is none."""
        return self._heap[0][0] if self._heap else None

    def step(self) -> None:
        """Makes the next event happen. Raises IndexError if there is none."""
        self.now, _, run, arguments = heappop(self._heap)
        self.done += 1
        run(*arguments)

    def run(self, until_ns: int, most: int) -> bool:
        """Makes events happen, `most` of them, up to a time, and lets it come; False once it has."""
        heap = self._heap
        for _ in range(most):
            if not heap or heap[0][0] > until_ns:
                self.now = max(self.now, until_ns)
                return False
            self.now, _number, run, arguments = heappop(heap)
            self.done += 1
            run(*arguments)
        return True


class Alarm:
    """Has `ring` called when a core's next deadline comes; setting it again moves it earlier, never later.

    A core that is rung too early says so by its deadline, and the alarm is set again.
    """

    __slots__ = ("_agenda", "_at_ns", "_ring")

    def __init__(self, agenda: Agenda, ring: Callable[[], None]) -> None:
        self._agenda = agenda
        self._ring = ring
        self._at_ns: int | None = None

    def set(self, deadline: float | None) -> None:
        """`deadline` is in virtual seconds, and may have passed; None leaves the alarm as it is."""
        if deadline is None:
            return
        at_ns = max(due_ns(deadline), self._agenda.now)
        if self._at_ns is None or at_ns < self._at_ns:
            self._at_ns = at_ns
            self._agenda.at(at_ns, self._due, at_ns)

    def _due(self, at_ns: int) -> None:
        if at_ns != self._at_ns:
            return  # an earlier one was put down after it
        self._at_ns = None
        self._ring()
