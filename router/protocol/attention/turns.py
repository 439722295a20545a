"""Work that may take longer than a turn of the router, done in pieces.

A router takes a frame, an event or a tick in one turn, in which nothing else is done: neither a control frame
is read nor a message forwarded. A subscription that matches many publications, or must be compared with a
large cache, is therefore served in several turns.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator
from typing import TypeVar

from router.protocol.context import Context
from router.protocol.events import Action

#: Frames, or deliveries, of one turn.
SENDS_A_TURN = 48
#: Constraints that are compared with publications in one turn.
COMPARISONS_A_TURN = 2048
#: Timers that are run, or entries that are removed, in one turn when their times have come.
DEADLINES_A_TURN = 512
#: Pieces of work that may be open when a further subscription comes.
_OPEN_MAX = 64

#: Yields the actions of a turn, is sent the time of its next turn, and returns the actions of its last turn.
Work = Generator[list[Action], float, list[Action]]
_Result = TypeVar("_Result")


def ended(
    search: Generator[None, None, _Result], now: float
) -> Generator[list[Action], float, tuple[_Result, float]]:
    """Takes a search to its end, in as many turns of the work as it yields.

    Returns its result, and the time of the turn in which it ended.
    """
    while True:
        try:
            next(search)
        except StopIteration as end:
            return end.value, now
        now = yield []


class Turns:
    """The work of one router that is not done, one turn each in rotation.

    Args:
        context: of the router.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        #: The work, and the interface for which it is done; None: for an application.
        self._open: deque[tuple[int | None, Work]] = deque()
        self._of_interface: Counter[int | None] = Counter()

    @property
    def idle(self) -> bool:
        """True if all work is done."""
        return not self._open

    def room_for(self, interface: int | None) -> bool:
        """Whether a further subscription may be served; of a neighbour, as `State.keeps` has it.

        Args:
            interface: the SUB came in on it; None: it is an application's.
        """
        free = _OPEN_MAX - len(self._open)
        return free > 0 and (interface is None or self._of_interface[interface] < free)

    def start(self, work: Work, interface: int | None) -> list[Action]:
        """Does the first turn of some work now; the others follow.

        Args:
            interface: the work is for it; None: for an application.
        """
        try:
            actions = next(work)
        except StopIteration as end:
            return _last(end)
        self._open.append((interface, work))
        self._of_interface[interface] += 1
        return actions

    def next_deadline(self) -> float | None:
        return self._context.now if self._open else None

    def tick(self, now: float) -> list[Action]:
        """Does one turn."""
        if not self._open:
            return []
        interface, work = self._open.popleft()
        try:
            actions = work.send(now)
        except StopIteration as end:
            self._of_interface[interface] -= 1
            return _last(end)
        self._open.append((interface, work))
        return actions


def _last(end: StopIteration) -> list[Action]:
    actions: list[Action] = end.value
    return actions
