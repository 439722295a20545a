"""Runs the queries of an accounting: every table of the catalogue and every key of summary.json, on Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Lock
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from captures.accounting.expressions import only_row
from captures.accounting.reconcile import Total
from captures.accounting.registry import ALWAYS, MAKERS, NEVER, Kept, Maker, load
from captures.accounting.sources import Run
from captures.tables import store

load()

#: Settings of Spark SQL, for a small run and for others; None: as the session has it. In a small run,
#: compiling a query, or planning it again while it runs, takes longer than it saves.
_SETTINGS = {
    "spark.sql.codegen.wholeStage": ("false", "true"),
    "spark.sql.codegen.factoryMode": ("NO_CODEGEN", "FALLBACK"),
    "spark.sql.adaptive.enabled": ("false", "true"),
    # A query of one task needs no copies of tables in every executor, which would be jobs of their own.
    "spark.sql.autoBroadcastJoinThreshold": ("-1", None),
    "spark.sql.optimizer.disableHints": ("true", None),
    "spark.sql.leafNodeDefaultParallelism": ("1", None),
}
#: The queries of a small run spend their time in planning, each on one processor.
_QUERIES_AT_ONCE = 4
#: Seconds between two orders to cancel all jobs.
_CANCEL_EVERY_S = 0.3


_LOG_TABLES = "files of the tables of logs"
#: Number of the stages of `run_queries`.
QUERY_STAGES = 1 + sum(1 for maker in MAKERS.values() if maker.table or maker.summary)


class Values:
    """Calls registered functions, each once, in any threads; keeps DataFrames in memory as they declare.

    Args:
        provided: the values of names that no function has.
        kept: the declarations for which Spark keeps a DataFrame in memory.
        uses: for each function, how many times `release` will be called for it.
    """

    def __init__(self, provided: Mapping[str, Any], kept: Sequence[Kept], uses: Mapping[str, int]) -> None:
        self._provided = provided
        self._kept = kept
        self._uses = dict(uses)
        self._values: dict[str, Future[Any]] = {}
        self._in_memory: dict[str, DataFrame] = {}
        self._lock = Lock()

    def get(self, name: str) -> Any:
        """The value of a function, or the one provided under the name.

        Raises:
            Exception: what the function has raised.
        """
        if name in self._provided:
            return self._provided[name]
        with self._lock:
            value = self._values.get(name)
            if first := value is None:
                value = self._values[name] = Future()
        if first:
            # The graph has no circle, so the thread that computes a value never waits for one that waits
            # for it.
            try:
                value.set_result(self._compute(MAKERS[name]))
            except BaseException as error:
                value.set_exception(error)
        return value.result()

    def _compute(self, maker: Maker) -> Any:
        value = maker.function(*(self.get(name) for name in maker.needs))
        if maker.kept in self._kept:
            value = value.cache()
            with self._lock:
                self._in_memory[maker.name] = value
        return value

    def release(self, names: frozenset[str]) -> None:
        """Notes that a query which used these functions has ended; frees what no other query uses."""
        with self._lock:
            for name in names:
                self._uses[name] -= 1
            unused = [
                self._in_memory.pop(name) for name in names & self._in_memory.keys() if not self._uses[name]
            ]
        for value in unused:
            value.unpersist()

    def release_all(self) -> None:
        """Frees all that is in memory."""
        while self._in_memory:
            self._in_memory.popitem()[1].unpersist()


def run_queries(run: Run) -> tuple[list[Total], dict[str, Any]]:
    """Writes every table of a run.

    Returns the totals of the captures, and keys of summary.json.

    Leaves the session as it was: its settings, and the DataFrames that it keeps in memory.
    """
    spark = run.spark
    # A task for each core: Spark's default of 200 take longer to start than most of the tables to compute.
    tasks = 1 if run.small else max(2, spark.sparkContext.defaultParallelism)
    chosen = {key: small if run.small else large for key, (small, large) in _SETTINGS.items()}
    settings = {key: value for key, value in chosen.items() if value is not None}
    settings["spark.sql.shuffle.partitions"] = str(tasks)
    before = {key: spark.conf.get(key, None) for key in settings}
    uses = {maker: needed_by(maker) for maker in MAKERS.values() if maker.table or maker.summary}
    values = Values(
        run.provided(),
        [kept for kept in Kept if kept is ALWAYS or (run.small and kept is not NEVER)],
        {name: sum(name in needed for needed in uses.values()) for name in MAKERS},
    )
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        return _run(run, values, uses)
    finally:
        # Where the session is gone, nothing of it is left.
        with suppress(Py4JError, OSError):
            values.release_all()
            for key, former in before.items():
                if former is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, former)


def needed_by(maker: Maker) -> frozenset[str]:
    """The names of the functions that a function needs, itself included, directly and through others."""
    needed = {maker.name}
    for name in maker.needs:
        if name in MAKERS:
            needed |= needed_by(MAKERS[name])
    return frozenset(needed)


def _run(
    run: Run, values: Values, uses: Mapping[Maker, frozenset[str]]
) -> tuple[list[Total], dict[str, Any]]:
    def query(maker: Maker) -> dict[str, Any]:
        with run.stages.stage(maker.table or maker.name):
            return answer(maker)

    def answer(maker: Maker) -> dict[str, Any]:
        value = values.get(maker.name)
        if maker.table:
            # The frames of a large run have been written, to be read by the queries.
            if isinstance(value, pa.Table):
                store.write_arrow(value, run.folder, maker.table)
            elif run.small or maker.table != store.FRAMES:
                store.write(value, run.folder, maker.table, collect=run.small)
            found: dict[str, Any] = {}
        else:
            found = only_row(value) if isinstance(value, DataFrame) else value
        values.release(uses[maker])
        return {maker.key: found} if maker.key else found

    def write_log_tables() -> dict[str, Any]:
        with run.stages.stage(_LOG_TABLES):
            for name, table in run.tables.items():
                store.write_arrow(table, run.folder, name)
        return {}

    # Queries whose values others take begin first, so that the others do not wait for them later.
    taken = {name for maker in MAKERS.values() for name in maker.needs}
    ordered = sorted(uses, key=lambda maker: maker.name not in taken)
    with ThreadPoolExecutor(max_workers=_QUERIES_AT_ONCE) as pool:
        work: list[Future[dict[str, Any]]] = [pool.submit(query, maker) for maker in ordered]
        work.append(pool.submit(write_log_tables))
        try:
            done, _ = wait(work, return_when=FIRST_EXCEPTION)
            found = [future.result() for future in done]
            return values.get("totals"), {key: value for keys in found for key, value in keys.items()}
        except BaseException:
            # An error does not wait for the other queries.
            pool.shutdown(wait=False, cancel_futures=True)
            end_jobs(spark=run.spark, work=work)
            raise


def end_jobs(spark: SparkSession, work: Sequence[Future[Any]]) -> None:
    """Cancels every job of a session until all of `work`, which starts jobs, is done."""
    while going := [future for future in work if not future.done()]:
        with suppress(Py4JError, OSError):
            spark.sparkContext.cancelAllJobs()
        # A query that was being planned is a job when the wait is over.
        wait(going, _CANCEL_EVERY_S)
