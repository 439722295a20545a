"""Queries over the tables of a run by Spark SQL, for a cluster or a run too large for one machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from captures.rundir.layout import RunLayout
from captures.spark import internals
from captures.spark.reach import require_reach
from captures.spark.session import spark_session
from captures.tables import store
from captures.tables.catalogue import TABLES
from captures.tables.query import QueryError, table_names
from captures.tables.query_check import QueryRefusedError, checked


def ask_spark(run: Path, sql: str, master: str) -> Iterator[pa.RecordBatch]:
    """The answer to one query, as of `captures.tables.query.ask`, from a new session.

    Args:
        master: Spark's master URL; its workers must reach the run folder under the same path.

    Raises:
        QueryError: the run has no tables; the SQL is wrong, fails, or may touch more than the tables.
        SessionError: Spark does not start, or ends by itself; a worker does not reach the run folder.
    """
    table_names(run)  # raises its error before Spark starts
    with spark_session(master, RunLayout(run).spark_log) as spark:
        require_reach(spark, run)
        yield from answer(spark, run, sql)


def answer(spark: SparkSession, run: Path, sql: str) -> Iterator[pa.RecordBatch]:
    """As `ask_spark`, in an existing session, whose views and settings the query does not get."""
    try:
        session = spark.newSession()
        for name in table_names(run):
            # Without a schema, Spark starts a job for each table, to read it from a file.
            reader = session.read.schema(from_arrow_schema(TABLES[name].schema))
            reader.parquet(str(store.folder(run, name).resolve())).createOrReplaceTempView(name)
        session.conf.set("spark.sql.runSQLOnFiles", "false")
        table = checked(session, sql).toArrow()
    except QueryRefusedError as error:
        raise QueryError(str(error).strip()) from error
    except (PySparkException, Py4JJavaError) as error:
        if not internals.context_runs(spark.sparkContext):
            raise  # the session reports its own end
        # Py4JJavaError: an exception that PySpark has no class for.
        said = error.java_exception if isinstance(error, Py4JJavaError) else error
        raise QueryError(str(said).strip()) from error
    yield pa.RecordBatch.from_pylist([], schema=table.schema)
    yield from table.to_batches()
