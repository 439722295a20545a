"""Spark as an engine of the texts of `captures.accounting.texts`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from captures.accounting.engines import CAPTURED, Engine
from captures.accounting.texts import reads
from captures.tables import TABLES, store
from captures.tables.query import new_database

#: Settings of Spark SQL for a small run. There, compiling a query, or planning it again while it runs, takes
#: longer than it saves; and a query of one task needs no copies of tables in every executor, which would be
#: jobs of their own.
_SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
}
_RECURSIVE = re.compile(r"\bwith recursive\b")
#: Seconds between two orders to cancel all jobs.
_CANCEL_EVERY_S = 0.3


class Spark(Engine):
    """Spark, in a session whose views and settings are those of one accounting.

    What several texts read is kept in memory. Of a small run, the frames are, too; every query is one task,
    and this process writes the tables. A large one writes the frames as Parquet, of which the queries read
    the columns that they need.

    Args:
        captured: the captured frames (`captures.datasource.formats.captured_frames`), in `session`.
        folder: takes the tables of the run.
        small: whether memory holds the frames.
    """

    #: The queries of a small run spend their time in planning, each on one processor.
    at_once = 4

    def __init__(self, session: SparkSession, captured: DataFrame, folder: Path, *, small: bool) -> None:
        self._session, self._folder, self._small = session, folder, small
        self._kept: list[DataFrame] = []
        # A task for each core: Spark's default of 200 take longer to start than most tables to compute.
        tasks = {"spark.sql.shuffle.partitions": str(max(2, session.sparkContext.defaultParallelism))}
        for key, value in (_SMALL if small else {"spark.sql.adaptive.enabled": "true", **tasks}).items():
            session.conf.set(key, value)
        captured.createOrReplaceTempView(CAPTURED)

    def close(self) -> None:
        """Frees the memory."""
        while self._kept:
            self._kept.pop().unpersist()

    def register(self, name: str, table: pa.Table) -> None:
        # Of a table in chunks, Spark may take the first alone, which may be empty.
        frame = self._session.createDataFrame(table.combine_chunks())
        (frame.coalesce(1) if self._small else frame).createOrReplaceTempView(name)

    def read_captures(self, name: str, sql: str) -> None:
        if self._small:
            self.define(name, sql, shared=True)
            return
        frames = self._session.sql(sql).select(TABLES[name].schema.names)
        store.write(frames, self._folder, name)
        path = str(self._folder / name)
        self._session.read.schema(frames.schema).parquet(path).createOrReplaceTempView(name)

    def define(self, name: str, sql: str, *, shared: bool) -> None:
        if _RECURSIVE.search(sql):
            # Spark plans and runs jobs for each level; DuckDB answers in this process at once.
            with new_database(self._folder, threads=1) as database:
                for read in reads(sql):
                    database.register(read, self.rows(read).combine_chunks())
                self.register(name, database.sql(sql).to_arrow_table())
            return
        answer = self._session.sql(sql)
        if shared:
            self._kept.append(answer.cache())
        answer.createOrReplaceTempView(name)

    def rows(self, name: str) -> pa.Table:
        return self._session.table(name).toArrow()

    def export(self, name: str, folder: Path) -> None:
        if name == store.FRAMES and not self._small:
            return  # they were written to be read
        schema = TABLES[name].schema
        columns = self._session.table(name).select(schema.names)
        if self._small:
            store.write_arrow(columns.toArrow().cast(schema), folder, name)
        else:
            store.write(columns, folder, name)

    def end(self, work: Iterable[Future[Any]]) -> None:
        while going := [future for future in work if not future.done()]:
            with suppress(Py4JError, OSError):
                self._session.sparkContext.cancelAllJobs()
            # A query that was being planned is a job when the wait is over.
            wait(going, _CANCEL_EVERY_S)
