"""Expressions that several modules of the accounting use."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

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


def only_row(table: DataFrame) -> dict[str, Any]:
    """The only row of a table of totals, as a dict."""
    (row,) = table.collect()
    values: dict[str, Any] = row.asDict()
    return values


def for_duckdb(text: str, *tables: str) -> str:
    """The text of a query, which names the tables in braces, for DuckDB."""
    return text.format(**{name: name for name in tables})
