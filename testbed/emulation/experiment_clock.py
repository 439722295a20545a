"""The experiment clock of an emulation: its owner, who announces its pieces.

The clock runs at rate 1 while the network is brought up, and at the experiment's rate from second 0 of the
workload on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from router.clock.clock import LEAD_S, SharedClock
from router.clock.meter import Meter
from router.clock.page import ClockPage
from router.clock.pieces import NS, Piece

#: Experiment seconds per wall second while the network is brought up.
BRING_UP_RATE = 1.0
#: A lower rate is announced this long before it takes effect, so that few readers are ahead of it.
_SHORT_LEAD_S = 0.005


class EmulationClock:
    """The page of a run and its pieces.

    Args:
        path: the file of the page, which must not exist.
        nodes: the nodes of the routers; each has a slot.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(self, path: Path, nodes: Sequence[int]) -> None:
        self.path = path
        self._slot_of = {node: number for number, node in enumerate(nodes)}
        first = Piece(time.monotonic_ns(), 0.0, BRING_UP_RATE)
        self.page = ClockPage.create(path, len(nodes) + 1, first)
        self.clock = SharedClock(self.page)
        self.routers = {node: Meter(self.page.slot(slot)) for node, slot in self._slot_of.items()}
        self.workload = Meter(self.page.slot(len(nodes)))
        self._last = first

    def slot(self, node: int) -> int:
        """The number of a router's slot."""
        return self._slot_of[node]

    def begin(self, rate: float) -> float:
        """Announces the rate of the workload; what was measured until now is forgotten.

        Returns:
            Second 0 of the workload, in seconds of the clock: in half a wall second.
        """
        piece = self._announce(rate, LEAD_S)
        self.page.zero_s = piece.experiment_s
        for meter in (*self.routers.values(), self.workload):
            meter.reset()
        return piece.experiment_s

    def set_rate(self, rate: float) -> None:
        """Announces another rate: a higher one for half a wall second from now, a lower one for now."""
        self._announce(rate, LEAD_S if rate > self.clock.rate else _SHORT_LEAD_S)

    def close(self) -> None:
        """Unmaps the page; routers may use it still."""
        self.page.close()

    def _announce(self, rate: float, lead_s: float) -> Piece:
        start_ns = time.monotonic_ns() + round(lead_s * NS)
        before = next(piece for piece in reversed(self.page.pieces()) if piece.start_ns < start_ns)
        piece = before.followed_by(start_ns, rate)
        if self.page.append(piece):
            self._last = piece
        return self._last
