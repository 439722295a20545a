"""Expressions that several modules of the accounting use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.rundir.clock import Clock

#: The columns that identify a message, and an application that it may be delivered to.
MESSAGE = ["source", "seq"]
RECEIVER = [*MESSAGE, "node", "app"]


def count_if(condition: str) -> Column:
    """The number of rows in which the SQL condition holds."""
    return F.count(F.expr(f"case when {condition} then 1 end"))


def total(name: str, condition: str = "true") -> Column:
    """The sum of a column over the rows where the SQL condition holds, under the name of the column.

    The sum of no rows is 0.
    """
    return (
        F.coalesce(F.sum(F.expr(f"case when {condition} then {name} end")), F.lit(0))
        .cast("bigint")
        .alias(name)
    )


def experiment_seconds(clock: Clock, time_ns: Column) -> Column:
    """The experiment seconds at wall times (ns since 1970 UTC)."""
    return _of_pieces(
        time_ns,
        [piece.start_ns for piece in clock.pieces],
        [
            (time_ns - F.lit(piece.start_ns)) * F.lit(piece.rate / 1e9) + F.lit(piece.experiment_s)
            for piece in clock.pieces
        ],
    )


def wall_seconds(clock: Clock, from_s: Column, length_s: float) -> Column:
    """The wall seconds that `length_s` experiment seconds last from an experiment second on."""
    if len(clock.pieces) == 1:
        return F.lit(length_s / clock.pieces[0].rate)

    def wall(experiment_s: Column) -> Column:
        return _of_pieces(
            experiment_s,
            [piece.experiment_s for piece in clock.pieces],
            [
                (experiment_s - F.lit(piece.experiment_s)) / F.lit(piece.rate)
                + F.lit((piece.start_ns - clock.start_ns) / 1e9)
                for piece in clock.pieces
            ],
        )

    return wall(from_s + F.lit(length_s)) - wall(from_s)


def _of_pieces(value: Column, starts: Sequence[float], of_piece: Sequence[Column]) -> Column:
    """The expression of the last piece that starts at or before a value: a binary search in the plan."""
    if len(of_piece) == 1:
        return of_piece[0]
    middle = len(of_piece) // 2
    before = _of_pieces(value, starts[:middle], of_piece[:middle])
    return F.when(value < F.lit(starts[middle]), before).otherwise(
        _of_pieces(value, starts[middle:], of_piece[middle:])
    )


def only_row(table: DataFrame) -> dict[str, Any]:
    """The only row of a table of totals, as a dict."""
    (row,) = table.collect()
    values: dict[str, Any] = row.asDict()
    return values
