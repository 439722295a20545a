"""The accounting of a run: reads the run folder, writes its tables, returns its keys of summary.json."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from captures.accounting.attention import attention_keys
from captures.accounting.inputs import Inputs, capture_files, defects, read_inputs
from captures.accounting.lag import lag_keys
from captures.accounting.queries import end_jobs, run_queries
from captures.accounting.reconcile import (
    Total,
    reconcile_applications,
    reconcile_ovs,
    reconcile_routers,
    reconcile_tshark,
    tshark_counts,
)
from captures.accounting.registry import LOG_TABLES
from captures.accounting.sources import Run
from captures.accounting.summary import SUMMARY_KEYS
from captures.accounting.totals import log_keys
from captures.accounting.uncaptured import captured_only
from captures.accounting.unrecorded import FIRST_UNRECORDED
from captures.accounting.verdict import verdict
from captures.rundir.layout import RunLayout
from captures.source import captured_frames
from captures.spark.session import spark_session
from captures.tables import store
from topos.model import Link

#: Captures of fewer bytes than this make a small run: about 100,000 frames.
_SMALL_BYTES = 20_000_000
#: For larger captures, about a million frames, a JVM that compiles longer is faster.
_LARGE_BYTES = 100_000_000
#: Threads for tshark, the walks through the captures, the tables of logs, and the queries of Spark.
_THREADS = 4
#: Seconds of silence after Ctrl-C before "ending ..." is printed.
_SILENT_S = 1.0


def account(
    run_dir: Path,
    master: str = "local[2]",
    *,
    partitions: int = 4,
    spark: SparkSession | None = None,
    publish: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Accounts for a finished run: writes its tables, and returns keys of summary.json.

    The keys are those of `captures.accounting.summary.SUMMARY_KEYS`, except the keys of the runner. Older
    tables of the run stay in place until the new ones are complete.

    Args:
        master: Spark's master URL.
        partitions: tasks that decode the captures.
        spark: a session of `captures.spark.session`; None: a new session, whose start takes some seconds.
        publish: writes the summary with the keys, when the tables are in place. Until it has returned,
            readers treat the accounting as interrupted.

    Raises:
        RunFolderError: a file of the run folder is missing or malformed.
        BusyError: another process accounts for the run.
        SessionError: Spark does not start, or ends by itself.
        PcapError: a capture file is no pcap file.
        TsharkError: tshark cannot be run.
    """
    with store.new_tables(run_dir) as folder:
        summary = _accounted(run_dir, master, partitions, spark, folder)
        with store.publish(run_dir):
            if publish is not None:
                publish(summary)
    return summary


def _accounted(
    run_dir: Path, master: str, partitions: int, spark: SparkSession | None, folder: Path
) -> dict[str, Any]:
    """As `account`, with the tables in `folder`."""
    started = time.monotonic()
    layout = RunLayout(run_dir)
    inputs = read_inputs(layout)
    files = {capture.identity.name: run_dir / capture.file for capture in inputs.captures}
    size = sum(path.stat().st_size for path in files.values())
    log = layout.spark_log
    session = nullcontext(spark) if spark else spark_session(master, log, large=size > _LARGE_BYTES)
    # tshark and the walks need no Spark: they run while it starts.
    with _threads() as pool:
        counting = pool.submit(tshark_counts, files)
        walking = pool.submit(defects, files)
        tables = pool.submit(_log_tables, inputs)
        with session as active:

            def compute() -> tuple[list[Total], dict[str, Any]]:
                run = Run(
                    active,
                    inputs,
                    captured_frames(active, run_dir, partitions),
                    capture_files(inputs.captures, walking.result()),
                    tables.result(),
                    folder,
                    small=size < _SMALL_BYTES,
                )
                return run_queries(run)

            # In a thread, where no signal interrupts calls of Spark, so that they can end in order.
            computing = pool.submit(compute)
            try:
                totals, counted = computing.result()
            except BaseException:
                if spark is not None:  # a session of this function ends with its jobs
                    end_jobs(spark, [computing])
                raise
        counts = counting.result()
    routers, ports, links = captured_only(
        inputs.captures, inputs.router_counters, inputs.ovs_counters, inputs.links
    )
    reconciliation = {
        "tshark": reconcile_tshark(totals, counts, inputs.captures),
        "routers": reconcile_routers(totals, routers),
        "ovs": reconcile_ovs(totals, ports, links),
        "applications": reconcile_applications(
            Counter(inputs.log.sent["source"].to_pylist()),
            inputs.router_counters,
            counted.pop(FIRST_UNRECORDED),
        ),
    }
    summary = {
        **counted,
        **log_keys(inputs),
        **lag_keys(inputs.lag, inputs.clock),
        "links_captured": len(links),
        "host_links_captured": len(routers),
        "attention": attention_keys(inputs, counted["frames_by_type"]),
        "capture_defects": [f"{name}: {defect}" for name, defect in walking.result().items()],
        "reconciliation": reconciliation,
    }
    uncaptured = [] if inputs.simulated else _uncaptured(inputs, routers, links)
    summary["verdict"], summary["verdict_reasons"] = verdict(summary, uncaptured)
    summary["accounting_s"] = round(time.monotonic() - started, 3)
    # In the order of docs/summary.md, which has every key.
    order = list(SUMMARY_KEYS)
    return dict(sorted(summary.items(), key=lambda item: order.index(item[0])))


def _log_tables(inputs: Inputs) -> dict[str, pa.Table]:
    """The tables that need no Spark, by name."""
    return {name: make(inputs) for name, make in LOG_TABLES.items()}


def _uncaptured(inputs: Inputs, routers: Collection[int], links: Collection[Link]) -> list[str]:
    """The links that an emulation should have captured, and has not."""
    return [
        *(f"{link.u}-{link.v}" for link in inputs.links if link not in links),
        *(f"the host link of node {node}" for node in inputs.router_counters if node not in routers),
    ]


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
