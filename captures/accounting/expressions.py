"""Expressions that several parts of the accounting use."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.rundir.clock import Clock

#: A message, and an application that may get it.
MESSAGE = ["source", "seq"]
RECEIVER = [*MESSAGE, "node", "app"]


def count_if(condition: str) -> Column:
    """In how many rows the SQL condition holds."""
    return F.count(F.expr(f"case when {condition} then 1 end"))


def total(name: str, condition: str = "true") -> Column:
    """The sum of a column over the rows where the SQL condition holds, 0 without any, under its name."""
    return (
        F.coalesce(F.sum(F.expr(f"case when {condition} then {name} end")), F.lit(0))
        .cast("bigint")
        .alias(name)
    )


def experiment_seconds(clock: Clock, time_ns: Column) -> Column:
    """The experiment seconds at wall times."""
    return (time_ns - F.lit(clock.start_ns)) * F.lit(clock.time_scale / 1e9)
