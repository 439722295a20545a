"""The base of all queries: the captured frames and the tables of the run's small files, in Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.accounting.inputs import Inputs
from captures.accounting.registry import SMALL, step, table
from captures.accounting.stages import Stages
from captures.accounting.times import experiment_seconds
from captures.tables import store
from captures.tables.catalogue import TABLES

#: Tables of at most this many rows are sent to every executor, rather than sorted and merged with another.
_BROADCAST_ROWS = 200_000


@dataclass(frozen=True)
class Run:
    """A run in a Spark session.

    Attributes:
        decoded: the captured frames (`captures.source.captured_frames`).
        files: the table of `captures.accounting.inputs.capture_files`.
        tables: those of `captures.accounting.registry.LOG_TABLES`, by name.
        folder: takes the tables of the run.
        small: the run has so few frames that memory holds them; every query is one task, and this process
            writes the tables.
        stages: takes the times of the queries.
    """

    spark: SparkSession
    inputs: Inputs
    decoded: DataFrame
    files: pa.Table
    tables: dict[str, pa.Table]
    folder: Path
    small: bool
    stages: Stages = field(default_factory=Stages)

    def frame(self, table: pa.Table) -> DataFrame:
        """A table that this process holds, as a DataFrame; in a small run, of one partition."""
        frame = self.spark.createDataFrame(table)
        return frame.coalesce(1) if self.small else frame

    def provided(self) -> dict[str, Any]:
        """The values that registered functions may take beside each other's, by the parameters' names.

        `bin_s`: width of a time bin in experiment seconds; `bins`: number of the bins from second 0 to the
        last event of the run; `last_ns`: time of that event; `one_task`: whether every query is one task.
        """
        inputs = self.inputs
        return {
            "run": self,
            "one_task": self.small,
            "inputs": inputs,
            "clock": inputs.clock,
            "bin_s": inputs.bin_s,
            "bins": inputs.bins,
            "last_ns": inputs.log.last_ns,
        }


@table("frames", kept=SMALL)
def frames(run: Run) -> DataFrame:
    """The captured frames, decoded once.

    A small run keeps them in memory. A large one writes them as Parquet, of which the queries read the
    columns that they need.
    """
    decoded = (
        run.decoded.withColumn("time_s", F.expr(experiment_seconds(run.inputs.clock, "time_ns")))
        .withColumn("source", F.when(F.col("type") == "MSG", F.col("issuer")))
        .select(TABLES[store.FRAMES].schema.names)
    )
    if run.small:
        return decoded
    store.write(decoded, run.folder, store.FRAMES, collect=False)
    path = str(run.folder / store.FRAMES)
    return run.spark.read.schema(decoded.schema).parquet(path)


@step()
def sent(run: Run) -> DataFrame:
    """The messages that applications sent."""
    return run.frame(run.inputs.log.sent)


@step()
def deliveries(run: Run) -> DataFrame:
    """The messages that routers handed over to applications."""
    return run.frame(run.inputs.log.deliveries)


@step()
def lost(run: Run) -> DataFrame:
    """The deliveries that found the connection of the application broken."""
    return run.frame(run.inputs.log.lost)


@step()
def declared(run: Run) -> DataFrame:
    """The predicates that applications set."""
    return run.frame(run.inputs.log.declared)


@step()
def oracle(run: Run) -> DataFrame:
    """The oracle's answers."""
    return run.frame(run.tables["oracle"])


@step()
def links(run: Run) -> DataFrame:
    """The links of the topology."""
    return run.frame(run.tables["links"])


@step()
def files(run: Run) -> DataFrame:
    """The captures, with their own counters and the defects of their files."""
    return run.frame(run.files)


@step()
def trees(run: Run) -> DataFrame:
    """The routers' parts in the broadcast trees."""
    return _for_joins(run, "trees")


@step()
def shortest_paths(run: Run) -> DataFrame:
    """The shortest paths between sources of messages and other nodes."""
    return _for_joins(run, "shortest_paths")


def _for_joins(run: Run, name: str) -> DataFrame:
    """A table with up to as many rows as there are pairs of nodes; broadcast if it is small."""
    rows = run.tables[name]
    frame = run.frame(rows)
    return F.broadcast(frame) if rows.num_rows < _BROADCAST_ROWS else frame
