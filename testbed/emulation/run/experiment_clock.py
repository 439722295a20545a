"""The experiment clock of an emulation: its owner, who announces its pieces.

The clock runs at rate 1 while the network is brought up, and at the experiment's rate from second 0 of the
workload on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from captures.rundir.clock import ClockPiece, append_piece
from captures.rundir.layout import RunLayout
from router.clock.clock import LEAD_S, SharedClock
from router.clock.meter import Meter
from router.clock.page import NS, ClockPage, Piece

#: Experiment seconds per wall second while the network is brought up.
BRING_UP_RATE = 1.0
#: A lower rate is announced this long before it takes effect, so that few readers are ahead of it.
_SHORT_LEAD_S = 0.005


class EmulationClock:
    """The page of a run and its pieces.

    Args:
        run: the run folder, to which the pieces are written.
        path: the file of the page, which must not exist.
        nodes: the nodes of the routers; each has a slot.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(self, run: RunLayout, path: Path, nodes: Sequence[int]) -> None:
        self.path = path
        self._run = run
        self._slot_of = {node: number for number, node in enumerate(nodes)}
        first = Piece(time.monotonic_ns(), 0.0, BRING_UP_RATE)
        self.page = ClockPage.create(path, len(nodes) + 3, first)
        self.clock = SharedClock(self.page)
        self.routers = {node: Meter(self.page.slot(slot)) for node, slot in self._slot_of.items()}
        self.workload = Meter(self.page.slot(len(nodes)))
        self.captures_slot = len(nodes) + 1
        self.captures = Meter(self.page.slot(self.captures_slot))
        self.controller_slot = len(nodes) + 2
        self.controller = Meter(self.page.slot(self.controller_slot))

    @property
    def zero_s(self) -> float:
        """Second 0 of the workload in seconds of the clock; NaN before it is known."""
        return self.page.zero_s

    @property
    def now_s(self) -> float:
        """The second of the workload; NaN before its beginning is known."""
        return self.clock.now() - self.page.zero_s

    @property
    def meters(self) -> tuple[Meter, ...]:
        """The meters of all parts that write to the page."""
        return (*self.routers.values(), self.workload, self.captures, self.controller)

    def slot(self, node: int) -> int:
        """The number of a router's slot."""
        return self._slot_of[node]

    def begin(self, rate: float) -> float:
        """Announces the first rate of the workload.

        Returns:
            Second 0 of the workload, in seconds of the clock: in half a wall second.
        """
        piece = self._announce(rate, LEAD_S)
        assert piece is not None
        self.page.zero_s = piece.experiment_s
        for each in self.page.pieces():
            self._log(each)
        return piece.experiment_s

    def set_rate(self, rate: float) -> None:
        """Announces another rate of the workload: a higher one for half a wall second from now, a lower one
        for now.
        """
        piece = self._announce(rate, LEAD_S if rate > self.clock.rate else _SHORT_LEAD_S)
        if piece is not None:
            self._log(piece)

    def end(self) -> None:
        """Notes the clock at the end: between two notes, the wall clock may have been set."""
        now_ns = time.monotonic_ns()
        before = next(piece for piece in reversed(self.page.pieces()) if piece.start_ns < now_ns)
        self._log(before.followed_by(now_ns, before.rate))

    def close(self) -> None:
        """Unmaps the page; routers may use it still."""
        self.page.close()

    def _announce(self, rate: float, lead_s: float) -> Piece | None:
        """Adds a piece; None if the page is full."""
        start_ns = time.monotonic_ns() + round(lead_s * NS)
        before = next(piece for piece in reversed(self.page.pieces()) if piece.start_ns < start_ns)
        piece = before.followed_by(start_ns, rate)
        return piece if self.page.append(piece) else None

    def _log(self, piece: Piece) -> None:
        wall_ns = time.time_ns() - time.monotonic_ns()
        append_piece(
            self._run,
            ClockPiece(
                t_ns=piece.start_ns + wall_ns,
                monotonic_ns=piece.start_ns,
                experiment_s=piece.experiment_s - self.page.zero_s,
                rate=piece.rate,
            ),
        )
