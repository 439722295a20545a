"""The accounting of a run: reads the run folder, writes its tables, returns its keys of summary.json."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from captures.accounting.conclusion import conclusion
from captures.accounting.contradictions import SUSPICIOUS
from captures.accounting.direct import Direct
from captures.accounting.inputs import Inputs, capture_files, defects, read_inputs
from captures.accounting.queries import QUERY_STAGES, end_jobs, run_queries
from captures.accounting.reconcile import Total, TsharkError, tshark_counts
from captures.accounting.registry import LOG_TABLES
from captures.accounting.sources import Run
from captures.accounting.stages import Stages
from captures.rundir.capture_list import LARGE_BYTES, captured_bytes
from captures.rundir.layout import RunLayout
from captures.rundir.stages import write_accounting
from captures.source import captured_frames
from captures.spark.reach import require_reach
from captures.spark.session import failed, spark_session
from captures.tables import store
from captures.tables.query import OutOfMemory

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

#: The stages beside the queries.
_INPUTS, _START, _TSHARK = "small files", "start of Spark", "tshark"
_WALK, _LOGS = "walks through captures", "tables of logs"
_EXPECTED = len((_INPUTS, _START, _TSHARK, _WALK, _LOGS)) + QUERY_STAGES
#: Captures of fewer bytes than this make a small run: about 100,000 frames.
_SMALL_BYTES = 20_000_000
#: Threads for tshark, the walks through the captures, the tables of logs, and the queries of Spark.
_THREADS = 4
#: Seconds of silence after Ctrl-C before "ending ..." is printed.
_SILENT_S = 1.0


class TooLargeError(ValueError):
    """The captures of a run are too large for the engine."""


def account(
    run_dir: Path,
    master: str = "local[2]",
    *,
    partitions: int = 4,
    spark: SparkSession | None = None,
    publish: Callable[[dict[str, Any]], None] | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Accounts for a finished run: writes its tables, and returns keys of summary.json.

    The keys are those of `captures.rundir.summary_keys.SUMMARY_KEYS`, except the keys of the runner. Older
    tables of the run stay in place until the new ones are complete.

    Args:
        master: Spark's master URL.
        partitions: tasks that decode the captures.
        spark: a session of `captures.spark.session`; None: a new session, whose start takes some seconds.
        publish: writes the summary with the keys, when the tables are in place. Until it has returned,
            readers treat the accounting as interrupted.
        progress: takes lines of progress, in any thread.

    Raises:
        RunFolderError: a file of the run folder is missing or malformed.
        BusyError: another process accounts for the run.
        SessionError: Spark does not start, fails, or ends by itself; a worker does not reach the run folder.
        PcapError: a capture file is no pcap file.
    """
    stages = Stages(progress, _EXPECTED)
    with store.new_tables(run_dir) as folder:
        summary = _accounted(run_dir, master, partitions, spark, folder, stages)
        write_accounting(folder, stages.record("spark", master))
        with store.publish(run_dir):
            if publish is not None:
                publish(summary)
    return summary


def account_directly(
    run_dir: Path,
    publish: Callable[[dict[str, Any]], None],
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Accounts for a small run as `account`, on DuckDB in this process and without tshark.

    Raises:
        TooLargeError: the captures are larger than the memory of one process should hold, or than it can.
        RunFolderError, BusyError, PcapError: as `account`.
    """
    with store.new_tables(run_dir) as folder:
        started = time.monotonic()
        size = captured_bytes(RunLayout(run_dir))
        if size > LARGE_BYTES:
            raise TooLargeError(
                f"{run_dir}: {size / 1e6:,.0f} MB of captures; the engine duckdb holds at most"
                f" {LARGE_BYTES / 1e6:,.0f} MB: account on Spark"
            )
        stages = Stages(progress, len(("frames", "summary", "tables")))
        try:
            with ExitStack() as stack:
                with stages.stage("frames"):
                    direct = stack.enter_context(Direct(run_dir, whole=True))
                with stages.stage("summary"):
                    summary = direct.summary()
                with stages.stage("tables"):
                    for name, table in direct.all_tables():
                        store.write_arrow(table, folder, name)
        except OutOfMemory as error:
            reason = str(error).splitlines()[0]
            raise TooLargeError(f"{run_dir}: {reason}; account on Spark") from error
        summary["accounting_s"] = round(time.monotonic() - started, 3)
        write_accounting(folder, stages.record("duckdb", None))
        with store.publish(run_dir):
            publish(summary)
    return summary


def _accounted(
    run_dir: Path,
    master: str,
    partitions: int,
    spark: SparkSession | None,
    folder: Path,
    stages: Stages,
) -> dict[str, Any]:
    """As `account`, with the tables in `folder`."""
    started = time.monotonic()
    layout = RunLayout(run_dir)
    with stages.stage(_INPUTS):
        inputs = read_inputs(layout)
    files = {capture.identity.name: run_dir / capture.file for capture in inputs.captures}
    size = sum(path.stat().st_size for path in files.values())
    small = size < _SMALL_BYTES
    log = layout.spark_log
    session = nullcontext(spark) if spark else spark_session(master, log, large=size > LARGE_BYTES)
    # tshark and the walks need no Spark: they run while it starts.
    with _threads() as pool:
        counting = pool.submit(_staged, stages, _TSHARK, tshark_counts, files)
        walking = pool.submit(_staged, stages, _WALK, defects, files)
        tables = pool.submit(_staged, stages, _LOGS, _log_tables, inputs)
        with ExitStack() as stack:
            with stages.stage(_START):
                active = stack.enter_context(session)
                require_reach(active, run_dir, folder)

            def compute() -> tuple[list[Total], dict[str, Any]]:
                run = Run(
                    active,
                    inputs,
                    captured_frames(active, run_dir, 1 if small else partitions),
                    capture_files(inputs.captures, walking.result()),
                    tables.result(),
                    folder,
                    small=small,
                    stages=stages,
                )
                return run_queries(run)

            # In a thread, where no signal interrupts calls of Spark, so that they can end in order.
            computing = pool.submit(compute)
            try:
                totals, counted = computing.result()
            except BaseException as error:
                if spark is not None:  # a session of this function ends with its jobs
                    end_jobs(spark, [computing])
                if isinstance(error, (PySparkException, Py4JJavaError)):
                    raise failed(error, master, log) from error
                raise
        # A second reader of the captures is no reason to drop what the first has read.
        try:
            counts: dict[str, int] | str = counting.result()
        except TsharkError as error:
            counts = str(error)
    messages = counted.pop(SUSPICIOUS)
    summary = conclusion(inputs, "spark", totals, counted, messages, walking.result(), counts)
    summary["accounting_s"] = round(time.monotonic() - started, 3)
    return summary


def _staged(stages: Stages, name: str, work: Callable[[_Given], _Made], given: _Given) -> _Made:
    with stages.stage(name):
        return work(given)


def _log_tables(inputs: Inputs) -> dict[str, pa.Table]:
    """The tables that need no Spark, by name."""
    return {name: make(inputs) for name, make in LOG_TABLES.items()}


@contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    """Threads for one accounting. After Ctrl-C, says so if their end takes long, such as that of tshark."""
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
