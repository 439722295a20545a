"""How late a part of a run is, measured by itself, in its slot of the page.

Lag is how long something that the part has to do has waited: a frame in the socket, a deadline that has
passed, an item of the workload after its time. The greatest lag is kept twice: since the start of the
workload, for the verdict, and since the governor last looked. The reader takes a maximum by setting it to 0.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from router.clock import SLOT_NUMBERS
from router.clock.clock import ExperimentClock
from router.wire.header import TYPE_NAMES

#: Numbers of a slot.
RECENT, LAG, _LAG_WALL, _LAG_AT, TURN, _TURN_OF, _TURN_AT, _TURN_CPU = range(SLOT_NUMBERS)


#: What a turn did longest, beside the types of frames (below 256): nothing, a deadline, an application's
#: request, messages in compiled code with their deliveries.
NOTHING, DEADLINE, REQUEST, COMPILED = 0, 256, 257, 258
_WORK = {DEADLINE: "deadline", REQUEST: "request", COMPILED: "compiled"}


class Measured(NamedTuple):
    """The contents of a slot, with the meanings of `captures.rundir.measures.PartLag`.

    `lag_at_s` and `turn_at_s` are seconds of the experiment clock. Turns of compiled code alone, which
    forward at most one batch, do not count in `turn_cpu_s`.
    """

    lag_s: float
    lag_wall_s: float
    lag_at_s: float
    turn_s: float
    turn_of: str
    turn_at_s: float
    turn_cpu_s: float


class Meter:
    """Writes one slot.

    Attributes:
        slot: of `ClockPage.slot`; None: memory of this process alone.
    """

    __slots__ = ("slot",)

    def __init__(self, slot: memoryview[float] | None = None) -> None:
        self.slot: memoryview[float] | array[float] = (
            array("d", bytes(8 * SLOT_NUMBERS)) if slot is None else slot
        )

    def late(self, wall_s: float, clock: ExperimentClock) -> None:
        """Something has waited for `wall_s` wall seconds."""
        self._keep(wall_s * clock.rate, wall_s, clock)

    def overdue(self, due: float, clock: ExperimentClock) -> None:
        """Something that was due at an experiment second, which has passed, is done now."""
        self._keep(clock.now() - due, clock.waited(due), clock)

    def _keep(self, lag_s: float, wall_s: float, clock: ExperimentClock) -> None:
        slot = self.slot
        if wall_s > slot[RECENT]:
            slot[RECENT] = wall_s
        if wall_s > slot[_LAG_WALL]:
            slot[_LAG_WALL] = wall_s
        if lag_s > slot[LAG]:
            slot[LAG], slot[_LAG_AT] = lag_s, clock.now()

    def turn(self, wall_s: float, work: int, clock: ExperimentClock, cpu_s: float = 0.0) -> None:
        """A turn of the loop took `wall_s` wall seconds and `cpu_s` of CPU time, and did `work` longest."""
        slot = self.slot
        if wall_s > slot[TURN]:
            slot[TURN], slot[_TURN_OF], slot[_TURN_AT] = wall_s, work, clock.now()
        if cpu_s > slot[_TURN_CPU]:
            slot[_TURN_CPU] = cpu_s

    def ends_turn(self, began: float, began_cpu: float, work: int, clock: ExperimentClock) -> None:
        """As `turn`, of one that ends now.

        Args:
            began: when, `time.monotonic`.
            began_cpu: `time.thread_time` at that time.
        """
        wall_s = time.monotonic() - began
        # No turn has more CPU time than wall time: most calls need not ask for it.
        longest = wall_s > self.slot[TURN] or wall_s > self.slot[_TURN_CPU]
        if longest:
            self.turn(wall_s, work, clock, time.thread_time() - began_cpu)

    def measured(self) -> Measured:
        _, lag_s, lag_wall_s, lag_at_s, turn_s, turn_of, *turn = self.slot
        return Measured(lag_s, lag_wall_s, lag_at_s, turn_s, _work(int(turn_of)), *turn)

    @property
    def recent(self) -> float:
        """The greatest lag since the last call of `take_recent`, wall seconds."""
        return self.slot[RECENT]

    def take_recent(self) -> float:
        """The greatest lag since the last call, wall seconds; counts from 0 again."""
        recent = self.slot[RECENT]
        self.slot[RECENT] = 0.0
        return recent

    def saved(self) -> list[float]:
        """The slot as it is, for `restore`."""
        return list(self.slot)

    def restore(self, slot: Sequence[float]) -> None:
        """Forgets what was measured since `saved`."""
        for number, value in enumerate(slot):
            self.slot[number] = value

    def reset(self) -> None:
        """Forgets what was measured: the workload begins."""
        self.restore([0.0] * SLOT_NUMBERS)


def _work(code: int) -> str:
    return TYPE_NAMES.get(code) or _WORK.get(code, "")
