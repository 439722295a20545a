"""Experiment time as SQL, for Spark and DuckDB.

The operations and their order are those of `router.clock.page.Piece`, so that each engine computes the
double that `Clock.experiment_s` returns.
"""

from __future__ import annotations

from collections.abc import Sequence

from captures.rundir.clock import Clock
from router.clock.page import NS


def experiment_seconds(clock: Clock, time_ns: str) -> str:
    """Returns the experiment second at a wall time (ns since 1970 UTC), as an SQL expression."""
    return _of_pieces(
        time_ns,
        [str(piece.start_ns) for piece in clock.pieces],
        [
            f"({time_ns} - {piece.start_ns}) * {double(piece.rate)} / {double(NS)}"
            f" + {double(piece.experiment_s)}"
            for piece in clock.pieces
        ],
    )


def wall_seconds(clock: Clock, from_s: str, length_s: float) -> str:
    """Returns the wall seconds that `length_s` experiment seconds last from a second on, as SQL."""
    if len(clock.pieces) == 1:
        return double(length_s / clock.pieces[0].rate)

    def wall(experiment_s: str) -> str:
        return _of_pieces(
            experiment_s,
            [double(piece.experiment_s) for piece in clock.pieces],
            [
                f"({experiment_s} - {double(piece.experiment_s)}) / {double(piece.rate)}"
                f" + {double((piece.start_ns - clock.start_ns) / NS)}"
                for piece in clock.pieces
            ],
        )

    return f"({wall(f'({from_s} + {double(length_s)})')} - {wall(from_s)})"


def double(value: float) -> str:
    """Returns a number as SQL.

    Of a number without an exponent, engines make a decimal number, which they round a second time.
    """
    text = f"{float(value):.16e}"
    return f"({text})" if value < 0 else text


def _of_pieces(value: str, starts: Sequence[str], of_piece: Sequence[str]) -> str:
    """Returns the expression of the last piece that starts at or before a value: a binary search."""
    if len(of_piece) == 1:
        return f"({of_piece[0]})"
    middle = len(of_piece) // 2
    before = _of_pieces(value, starts[:middle], of_piece[:middle])
    after = _of_pieces(value, starts[middle:], of_piece[middle:])
    return f"(case when {value} < {starts[middle]} then {before} else {after} end)"
