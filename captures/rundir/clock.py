"""Experiment time: the pieces of the experiment clock in wall time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Self, TypedDict

from msgspec import Meta

from captures.rundir import RunLayout
from captures.rundir.files import Log, RunFolderError
from router.clock import NS, Piece, Timeline


class ClockPiece(TypedDict):
    """A span of constant rate, until the next piece begins (docs/explanation/clock.md)."""

    t_ns: Annotated[int, "its start; virtual in a simulation"]
    monotonic_ns: Annotated[int, "the machine's monotonic clock at its start, ns; virtual in a simulation"]
    experiment_s: Annotated[float, "experiment second at its start; negative before the workload"]
    rate: Annotated[float, Meta(gt=0), "experiment seconds per wall second"]


CLOCK = Log(
    lambda run: [run.clock],
    "The experiment clock: a line for each piece, written when second 0 is known, when the rate changes, "
    "and at the end of an emulation. A piece supersedes every earlier piece from its start on.",
    form=ClockPiece,
)


class Clock(Timeline):
    """The map between wall time (ns since 1970 UTC) and experiment seconds.

    Attributes:
        start_ns: wall time of experiment second 0.
        set_ns: by how much the wall clock was set while the run lasted, ns.
    """

    def __init__(self, pieces: Iterable[Piece], set_ns: int = 0) -> None:
        super().__init__(pieces)
        self.set_ns = set_ns
        self.start_ns = self.time_of(0.0)

    @classmethod
    def steady(cls, start_ns: int, rate: float) -> Self:
        """The clock of one rate."""
        return cls([Piece(start_ns, 0.0, rate)])

    @property
    def rates(self) -> tuple[float, ...]:
        """The rates from experiment second 0 on."""
        return tuple(
            piece.rate
            for piece, following in zip(self.pieces, (*self.pieces[1:], None), strict=True)
            if following is None or following.experiment_s > 0
        )

    def mean_rate(self, until_s: float) -> float:
        """The mean rate from experiment second 0 to a later second; for an earlier second, the rate at 0."""
        rates = self.rates
        if len(set(rates)) == 1 or until_s <= 0:
            return rates[0]
        return until_s * NS / max(1, self.time_of(until_s) - self.start_ns)


def read_clock(run: RunLayout, *, unfinished: bool = False) -> Clock:
    """Reads the pieces.

    Args:
        unfinished: leave out a last line without an end, which its writer did not finish.

    Raises:
        RunFolderError: the file is missing or empty, or a field is missing or malformed.
    """
    found = [piece for _, piece in CLOCK.read(run, unfinished=unfinished)]
    if not found:
        raise RunFolderError(f"{run.clock}: no piece; expected at least one")
    offsets = [record["t_ns"] - record["monotonic_ns"] for record in found]
    pieces = (Piece(record["t_ns"], record["experiment_s"], record["rate"]) for record in found)
    return Clock(pieces, max(offsets) - min(offsets))
