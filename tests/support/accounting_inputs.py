"""Small inputs of the accounting, and readers of its tables."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from captures.frames.decoder import COLUMNS, SPARK_SCHEMA
from captures.rundir.clock import Clock

#: One wall second is ten experiment seconds.
CLOCK = Clock.steady(1_000_000_000, 10.0)
SENT = "source int, seq bigint, sent_ns bigint, message string"
DELIVERIES = "source int, seq bigint, node int, app string, t_ns bigint"
ORACLE = "source int, seq bigint, sent_ns bigint, node int, app string, expected boolean, decided boolean"
LINKS = "link int, u int, v int, cost bigint, bandwidth_mbps double"


def frames_of(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Returns frames with the given columns; by default a MSG frame of node 0 on link 0."""
    base = {
        "kind": "link",
        "link": 0,
        "type": "MSG",
        "length": 100,
        "issuer": 0,
        "seq": 1,
        "fragment_index": 0,
    }
    data = [tuple({**base, **row}.get(name) for name in COLUMNS) for row in rows]
    return spark.createDataFrame(data, SPARK_SCHEMA)


def wall(seconds: float) -> int:
    """Returns the time in ns that is `seconds` wall seconds after the start."""
    return CLOCK.start_ns + round(seconds * 1e9)


def rows_of(table: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Returns the sorted rows of a table."""
    return sorted(tuple(row) for row in table.select(*columns).collect())
