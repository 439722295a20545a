"""Experiment time as SQL, for both engines."""

from __future__ import annotations

from captures.rundir.clock import Clock


def experiment_seconds(clock: Clock, time_ns: str) -> str:
    """Returns the experiment second at a wall time (ns since 1970 UTC), as an SQL expression."""
    return _of_pieces(
        time_ns,
        [str(piece.start_ns) for piece in clock.pieces],
        [
            f"({time_ns} - {piece.start_ns}) * {piece.rate / 1e9!r}::double + {piece.experiment_s!r}::double"
            for piece in clock.pieces
        ],
    )


def wall_seconds(clock: Clock, from_s: str, length_s: float) -> str:
    """Returns the wall seconds that `length_s` experiment seconds last from a second on, as SQL."""
    if len(clock.pieces) == 1:
        return f"{length_s / clock.pieces[0].rate!r}::double"

    def wall(experiment_s: str) -> str:
        return _of_pieces(
            experiment_s,
            [f"{piece.experiment_s!r}::double" for piece in clock.pieces],
            [
                f"({experiment_s} - {piece.experiment_s!r}::double) / {piece.rate!r}::double"
                f" + {(piece.start_ns - clock.start_ns) / 1e9!r}::double"
                for piece in clock.pieces
            ],
        )

    return f"({wall(f'({from_s} + {length_s!r}::double)')} - {wall(from_s)})"


def _of_pieces(value: str, starts: list[str], of_piece: list[str]) -> str:
    """Returns the expression of the last piece that starts at or before a value."""
    first, *others = of_piece
    cases = [f"when {value} >= {start} then {each}" for start, each in zip(starts[1:], others, strict=True)]
    return f"(case {' '.join(reversed(cases))} else {first} end)" if cases else f"({first})"
