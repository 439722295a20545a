"""The accounting of a run: reads the run folder, writes its tables, returns its keys of summary.json."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from captures.accounting.conclusion import ANSWERS, conclusion
from captures.accounting.direct import Direct
from captures.accounting.engines import CAPTURED, Engine
from captures.accounting.inputs import Inputs
from captures.accounting.reconcile import TsharkError, tshark_counts
from captures.accounting.steps import START, Shown, Sources, Stages, Steps
from captures.accounting.texts import reads
from captures.datasource.formats import DEFAULT_PARTITIONS, captured_frames
from captures.rundir import RunLayout
from captures.rundir.capture_list import LARGE_BYTES, SMALL_BYTES, captured_bytes
from captures.rundir.files import RunFolderError
from captures.rundir.measures import write_accounting
from captures.spark.internals import cancel_jobs
from captures.spark.session import failed, spark_session
from captures.spark.workers import require_reach
from captures.tables import TABLES, store
from captures.tables.query import DatabaseError, OutOfMemory, new_database

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
#: Seconds between two orders to cancel jobs.
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
        #: The tables that this process has: recursive texts read them here.
        self._held: dict[str, pa.Table] = {}
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
        self._held[name] = table
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
                    # Once, though several texts read it: each time, Spark would run a job.
                    if read not in self._held:
                        self._held[read] = self.rows(read)
                    database.register(read, self._held[read])
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
                cancel_jobs(self._session.sparkContext)
            # A query that was being planned is a job when the wait is over.
            wait(going, _CANCEL_EVERY_S)


#: The stages beside the queries.
_INPUTS, _TSHARK, _LOGS = "small files", "tshark", "tables of logs"
_EXPECTED = len((_INPUTS, START, _TSHARK, _LOGS, *ANSWERS, *TABLES))
#: Threads for capinfos, the tables of logs, and the queries of Spark.
_THREADS = 3
#: Seconds of silence after Ctrl-C before "ending ..." is printed.
_SILENT_S = 1.0


class TooLargeError(ValueError):
    """The memory of the machine is too small for a run."""


def account(
    run_dir: Path,
    master: str = "local[2]",
    *,
    spark: SparkSession | None = None,
    publish: Callable[[dict[str, Any]], None] | None = None,
    progress: Shown | None = None,
) -> dict[str, Any]:
    """Accounts for a finished run: writes its tables, and returns keys of summary.json.

    The keys are those of `captures.rundir.summary.SUMMARY_KEYS`, except the keys of the runner. Older
    tables of the run stay in place until the new ones are complete.

    Args:
        master: Spark's master URL.
        spark: a session of `captures.spark.session`; None: a new session, whose start takes some seconds.
        publish: writes the summary with the keys, when the tables are in place. Until it has returned,
            readers treat the accounting as interrupted.
        progress: is called in any thread.

    Raises:
        RunFolderError: a file of the run folder is missing or malformed.
        BusyError: another process accounts for the run.
        SessionError: Spark does not start, fails, or ends by itself; a worker does not reach the run folder.
        PcapError: a capture file is no pcap file.
    """
    stages = Stages(progress, _EXPECTED)
    with store.new_tables(run_dir) as folder:
        summary = _accounted(run_dir, master, spark, folder, stages)
        write_accounting(folder, stages.record("spark", master))
        with store.publish(run_dir):
            if publish is not None:
                publish(summary)
    return summary


def account_directly(
    run_dir: Path, publish: Callable[[dict[str, Any]], None], progress: Shown | None = None
) -> dict[str, Any]:
    """Accounts for a run as `account`, on DuckDB in this process and without tshark.

    Raises:
        TooLargeError: the memory of the machine is too small for the run.
        RunFolderError, BusyError, PcapError: as `account`.
    """
    started = time.monotonic()
    stages = Stages(progress, len(("frames", "summary", "tables")))
    with store.new_tables(run_dir) as folder:
        try:
            with stages.stage("frames"):
                direct = Direct(run_dir, whole=True, threads=None, spill=folder)
            with direct:
                with stages.stage("summary"):
                    summary = direct.summary()
                with stages.stage("tables"):
                    direct.write_tables(folder)
        except OutOfMemory as error:
            reason = str(error).splitlines()[0]
            raise TooLargeError(f"{run_dir}: {reason}; account on Spark") from error
        except DatabaseError as error:
            raise RunFolderError(f"{run_dir}: damaged records: {str(error).splitlines()[0]}") from error
        summary["accounting_s"] = round(time.monotonic() - started, 3)
        write_accounting(folder, stages.record("duckdb", None))
        with store.publish(run_dir):
            publish(summary)
    return summary


def _accounted(
    run_dir: Path, master: str, spark: SparkSession | None, folder: Path, stages: Stages
) -> dict[str, Any]:
    """As `account`, with the tables in `folder`."""
    started = time.monotonic()
    layout = RunLayout(run_dir)
    with stages.stage(_INPUTS):
        inputs = Inputs(layout)
    size = captured_bytes(layout)
    log = layout.spark_log
    session = nullcontext(spark) if spark else spark_session(master, log, large=size > LARGE_BYTES)
    # capinfos and the walks need no Spark: they run while it starts.
    with _threads() as pool:
        counting = pool.submit(stages.stage(_TSHARK)(tshark_counts), inputs.capture_paths)
        sources = Sources(inputs)
        preparing = pool.submit(stages.stage(_LOGS)(sources.prepare))
        with ExitStack() as stack:
            with stages.stage(START):
                active = stack.enter_context(session)
                require_reach(active, run_dir, folder)
            own, small = active.newSession(), size < SMALL_BYTES
            frames = captured_frames(own, run_dir, 1 if small else DEFAULT_PARTITIONS)
            engine = Spark(own, frames, folder, small=small)
            steps = Steps(engine, sources, stages)
            answers: dict[str, list[dict[str, Any]]] = {}

            def take(name: str) -> None:
                if name in TABLES:
                    steps.export(name, folder)
                else:
                    answers[name] = steps.rows(name)

            def compute() -> None:
                preparing.result()
                steps.make((*ANSWERS, *TABLES), take)

            # In a thread, where no signal interrupts calls of Spark, so that they can end in order.
            computing = pool.submit(compute)
            try:
                computing.result()
            except BaseException as error:
                if spark is not None:  # a session of this function ends with its jobs
                    engine.end([computing])
                if isinstance(error, (PySparkException, Py4JJavaError)):
                    raise failed(error, master, log) from error
                raise
            finally:
                with suppress(Py4JError, OSError):  # where the session is gone, nothing of it is left
                    engine.close()
        # A second reader of the captures is no reason to drop what the first has read.
        try:
            counts: dict[str, int] | str = counting.result()
        except TsharkError as error:
            counts = str(error)
    summary = conclusion("spark", inputs, answers, counts)
    summary["accounting_s"] = round(time.monotonic() - started, 3)
    return summary


@contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    """Threads for one accounting. After Ctrl-C, says so if their end takes long, such as that of capinfos."""
    pool = ThreadPoolExecutor(max_workers=_THREADS)
    try:
        yield pool
    except KeyboardInterrupt:
        notice = threading.Timer(_SILENT_S, lambda: print("ending ...", file=sys.stderr))
        notice.start()
        try:
            pool.shutdown(cancel_futures=True)
        finally:
            notice.cancel()
        raise
    finally:
        pool.shutdown()
