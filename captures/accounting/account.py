"""The accounting of one run: reads its folder, writes its tables, returns its part of summary.json."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from captures.accounting.inputs import Inputs, capture_files, defects, read_inputs, written_tables
from captures.accounting.queries import Passes, end_jobs
from captures.accounting.reconcile import (
    Total,
    reconcile_ovs,
    reconcile_routers,
    reconcile_tshark,
    tshark_counts,
)
from captures.accounting.summary import verdict
from captures.accounting.traffic import CONTROL_TYPES
from captures.accounting.uncaptured import captured_only, processed_by_counters
from captures.rundir.layout import RunLayout
from captures.source import captured_frames
from captures.spark.session import spark_session
from captures.tables import store
from router.wire.header import TYPE_NAMES
from topos.model import Link

#: Captures of fewer bytes than this make a small run: about 100,000 frames.
_SMALL_BYTES = 20_000_000
#: Captures of more, about a million frames, are worth a JVM that compiles longer.
_LARGE_BYTES = 100_000_000
#: tshark, the walk through the captures, the tables of logs, and all that Spark is asked.
_THREADS = 4
#: How long an end takes before it is said.
_SILENT_S = 1.0


def account(
    run_dir: Path,
    master: str = "local[2]",
    *,
    partitions: int = 4,
    spark: SparkSession | None = None,
    publish: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Accounts for a finished run: writes parquet/ and returns the keys of summary.json that come from it.

    The keys are those of `captures.accounting.summary.SUMMARY_KEYS`, except the runner's own. Takes some
    seconds to start Spark unless `spark`, a session of `captures.spark.session`, is given. Tables that are
    there stay until the new ones are complete.

    Args:
        publish: writes the summary, given these keys, when the tables are in place. Until it has returned,
            readers take the accounting for interrupted.

    Raises:
        RunFolderError: a file of the run folder is missing or bad.
        BusyError: another process accounts for this run.
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
    """The same, with the tables in `folder`."""
    started = time.monotonic()
    run = RunLayout(run_dir)
    inputs = read_inputs(run)
    files = {capture.identity.name: run_dir / capture.file for capture in inputs.captures}
    size = sum(path.stat().st_size for path in files.values())
    session = nullcontext(spark) if spark else spark_session(master, run.spark_log, large=size > _LARGE_BYTES)
    # tshark and the walks need no Spark: they go on while it starts.
    with _threads() as pool:
        counting = pool.submit(tshark_counts, files)
        walking = pool.submit(defects, files)
        tables = pool.submit(written_tables, inputs)
        with session as active:

            def compute() -> tuple[list[Total], dict[str, Any]]:
                passes = Passes(
                    active,
                    inputs,
                    captured_frames(active, run_dir, partitions),
                    capture_files(inputs.captures, walking.result()),
                    tables.result(),
                    folder,
                    small=size < _SMALL_BYTES,
                )
                return passes.run()

            # No signal interrupts what a thread says to Spark, so that it can end in order.
            computing = pool.submit(compute)
            try:
                totals, counted = computing.result()
            except BaseException:
                if spark is not None:  # one of ours ends with its jobs
                    end_jobs(spark, [computing])
                raise
        counts = counting.result()
    routers, ports, links = captured_only(
        inputs.captures, inputs.router_counters, inputs.ovs_counters, inputs.links
    )
    if not inputs.all_hosts_captured:
        counted |= processed_by_counters(inputs.router_counters.values())
    summary = {
        **counted,
        **_traffic_summary(totals),
        **_log_summary(inputs),
        "links_captured": len(links),
        "host_links_captured": len(routers),
        "capture_defects": [f"{name}: {defect}" for name, defect in walking.result().items()],
        "reconciliation": {
            "tshark": reconcile_tshark(totals, counts, inputs.captures),
            "routers": reconcile_routers(totals, routers),
            "ovs": reconcile_ovs(totals, ports, links),
        },
    }
    holds, reasons = verdict(summary, [] if inputs.simulated else _uncaptured(inputs, routers, links))
    summary["verdict"] = "holds" if holds else "fails"
    summary["verdict_reasons"] = reasons
    summary["accounting_s"] = round(time.monotonic() - started, 3)
    return summary


def _uncaptured(inputs: Inputs, routers: Collection[int], links: Collection[Link]) -> list[str]:
    """What an emulation should have captured, and has not; a simulation may leave captures out."""
    return [
        *(f"{link.u}-{link.v}" for link in inputs.links if link not in links),
        *(f"the host link of node {node}" for node in inputs.router_counters if node not in routers),
    ]


@contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    """Threads for one accounting. After Ctrl-C it is said if their end takes long: tshark's, say."""
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


def _log_summary(inputs: Inputs) -> dict[str, Any]:
    """The keys that come from logs and counters alone."""
    counters = inputs.router_counters.values()
    return {
        "messages_sent": inputs.log.sent.num_rows,
        "messages_planned": sum(line["action"] == "send_message" for line in inputs.workload),
        "capture_drops": sum(capture.dropped_by_kernel for capture in inputs.captures),
        "socket_drops": sum(counter.get("socket_drops", 0) for counter in counters),
        "router_send_drops": sum(
            counter.get("dropped", {}).get(reason, 0)
            for counter in counters
            for reason in ("unencodable", "send_queue_full")
        ),
    }


def _traffic_summary(totals: Iterable[Total]) -> dict[str, Any]:
    by: dict[str, Counter[str]] = {
        key: Counter()
        for key in (
            "frames_by_type",
            "bytes_by_type",
            "frames_by_type_host_links",
            "bytes_by_type_host_links",
        )
    }
    captured = undecodable = 0
    for total in totals:
        where = "" if total.kind == "link" else "_host_links"
        by[f"frames_by_type{where}"][total.type] += total.frames
        by[f"bytes_by_type{where}"][total.type] += total.bytes
        captured += total.frames
        undecodable += total.undecodable
    on_links = by["frames_by_type"]
    control = sum(on_links[kind] for kind in CONTROL_TYPES)
    protocol = control + on_links["MSG"]
    return {
        **{key: _every_type(counts, key.endswith("host_links")) for key, counts in by.items()},
        "frames_captured": captured,
        "frames_undecodable": undecodable,
        "control_share": control / protocol if protocol else None,
    }


def _every_type(counts: Mapping[str, int], host_links: bool) -> dict[str, int]:
    """Counts by type with a zero where there are none; the controller's frames run on host links alone."""
    usual = [*TYPE_NAMES.values()] if host_links else ["MSG", *CONTROL_TYPES]
    return {kind: counts.get(kind, 0) for kind in sorted({*usual, *(k for k, n in counts.items() if n)})}
