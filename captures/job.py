"""The accounting of one run: reads its folder, writes its tables, returns its part of summary.json."""

from __future__ import annotations

import math
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from captures import accounting
from captures.accounting import CONTROL_TYPES, Clock
from captures.logs import ApplicationLog, FirstPredicate, opening_predicates, opening_table, read_applications
from captures.logs import read_oracle as read_oracle_answers
from captures.partial import captured_only, processed_by_counters
from captures.pcap import tail_defect
from captures.reconcile import Total, reconcile_ovs, reconcile_routers, reconcile_tshark, tshark_counts
from captures.recovery import Epochs, advertised_again, read_epochs, recovery
from captures.rundir import CapturedFile, LinkEnds, RunFolder, RunFolderError
from captures.session import spark_session
from captures.source import captured_frames
from captures.summary import verdict
from router.wire.header import TYPE_NAMES

_MOST_BINS = 300
#: Captures of fewer bytes than this make a small run: about 100,000 frames.
_SMALL_BYTES = 20_000_000
#: Settings of Spark SQL, for a small run and for others: compiling a query takes longer than it saves there.
_CODE_GENERATION = {
    "spark.sql.codegen.wholeStage": ("false", "true"),
    "spark.sql.codegen.factoryMode": ("NO_CODEGEN", "FALLBACK"),
}
_QUERIES_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The small files of a run, read."""

    run: RunFolder
    captures: list[CapturedFile]
    log: ApplicationLog
    oracle: pa.Table
    workload: list[dict[str, Any]]
    opening: dict[int, FirstPredicate]
    clock: Clock
    router_counters: dict[int, dict[str, Any]]
    ovs_counters: dict[int, dict[int, dict[str, int]]]
    links: list[LinkEnds]
    epochs: Epochs

    @property
    def bin_s(self) -> float:
        """The narrowest bin of 1, 2 or 5 times a power of ten (0.1 s or more) that makes at most 300."""
        span_s = max(0.0, (self.log.last_ns - self.clock.start_ns) / 1e9 * self.clock.time_scale)
        for power in range(-1, 9):
            for factor in (1, 2, 5):
                width = factor * 10.0**power
                if span_s / width <= _MOST_BINS:
                    return width
        return math.ceil(span_s / _MOST_BINS)


def account(
    run_dir: Path, master: str = "local[2]", *, partitions: int = 4, spark: SparkSession | None = None
) -> dict[str, Any]:
    """Accounts for a finished run: writes parquet/ and returns the keys of summary.json that come from it.

    The keys are those of `captures.summary.SUMMARY_KEYS`, except the runner's own. Takes some seconds to
    start Spark unless `spark`, a session of `captures.session`, is given.

    Raises:
        RunFolderError: a file of the run folder is missing or bad.
        PcapError: a capture file is no pcap file.
        TsharkError: tshark cannot be run.
    """
    started = time.monotonic()
    inputs = _read(RunFolder(run_dir))
    files = {capture.identity.name: run_dir / capture.file for capture in inputs.captures}
    session = nullcontext(spark) if spark else spark_session(master, run_dir / "logs" / "spark.log")
    # tshark and the walk need no Spark: they go on while it starts.
    with ThreadPoolExecutor(max_workers=2) as pool:
        counting = pool.submit(tshark_counts, files)
        walking = pool.submit(_defects, files)
        with session as active:
            defects = walking.result()
            summary = _account(active, inputs, counting, partitions)
    summary["capture_defects"] = defects
    holds, reasons = verdict(summary)
    summary["verdict"] = "holds" if holds else "fails"
    summary["verdict_reasons"] = reasons
    summary["accounting_s"] = round(time.monotonic() - started, 3)
    return summary


def _read(run: RunFolder) -> _Inputs:
    manifest = run.manifest()
    log = read_applications(run)
    workload = run.workload_items()
    requested = [first.requested_ns for first in log.first_predicates.values()]
    start_ns = min(requested) if requested else int(manifest.get("started_ns", 0))
    captures = run.captures()
    for capture in captures:
        if not (run.path / capture.file).is_file():
            raise RunFolderError(f"{run.path / capture.file}: missing; capture.json names it")
    return _Inputs(
        run=run,
        captures=captures,
        log=log,
        oracle=read_oracle_answers(run),
        workload=workload,
        opening=opening_predicates(log, workload),
        clock=Clock(start_ns, float(manifest["time_scale"])),
        router_counters=run.router_counters(),
        ovs_counters=run.ovs_counters(),
        links=run.links(),
        epochs=read_epochs(run),
    )


def _defects(files: Mapping[str, Path]) -> list[str]:
    """Which captures end inside a record, and where."""
    return [f"{name}: {defect}" for name, path in files.items() if (defect := tail_defect(path))]


def _account(
    spark: SparkSession, inputs: _Inputs, counting: Future[dict[str, int]], partitions: int
) -> dict[str, Any]:
    run, clock = inputs.run, inputs.clock
    routers = inputs.router_counters
    captured_routers, captured_ports, captured_links = captured_only(
        inputs.captures, routers, inputs.ovs_counters, inputs.links
    )
    all_hosts_captured = len(captured_routers) == len(routers)
    small = sum((run.path / capture.file).stat().st_size for capture in inputs.captures) < _SMALL_BYTES
    for key, (when_small, when_large) in _CODE_GENERATION.items():
        spark.conf.set(key, when_small if small else when_large)
    decoded = captured_frames(spark, run.path, partitions)
    frames_path = str(run.path / "parquet" / "frames")
    # Either way each capture is decoded once. Memory is faster for a small run, Parquet for others, whose
    # queries read the columns that they need.
    if small:
        frames = decoded.cache()
    else:
        _write_frames(decoded, frames_path)
        frames = spark.read.schema(decoded.schema).parquet(frames_path)
    sent = spark.createDataFrame(inputs.log.sent)
    deliveries = spark.createDataFrame(inputs.log.deliveries)

    def write(name: str, table: DataFrame) -> None:
        _write(table, run.path / "parquet" / name, collect=small)

    def of_frames() -> dict[str, Any]:
        if small:
            _write_frames(frames, frames_path)
        return {}

    def of_applications() -> dict[str, Any]:
        oracle = spark.createDataFrame(inputs.oracle)
        outcomes = accounting.outcomes(oracle, deliveries, sent).cache()
        write("messages", accounting.messages(sent, outcomes, clock))
        write("false_negative_curve", accounting.false_negative_curve(outcomes, clock))
        convergence_s, converged_ns = convergence.result()
        totals = _one(accounting.outcome_totals(outcomes, converged_ns))
        outcomes.unpersist()
        return {**totals, "convergence_s": convergence_s}

    def of_traffic() -> list[Total]:
        traffic = accounting.traffic(frames, clock, inputs.bin_s).cache()
        totals = [Total(**row.asDict()) for row in accounting.capture_totals(traffic).collect()]
        bins = accounting.link_bins(traffic)
        write("link_bins", bins)
        write("link_totals", accounting.link_totals(bins))
        write("type_bins", accounting.type_bins(bins))
        traffic.unpersist()
        return totals

    def of_routers() -> dict[str, Any]:
        processed = accounting.processed(frames, sent, deliveries)
        # What routers did with messages is seen on their host links, on all of them or not at all.
        processed = processed.cache() if all_hosts_captured else processed.where("false")
        write("false_positive_curve", accounting.false_positive_curve(processed, clock))
        totals = _one(accounting.processed_totals(processed))
        processed.unpersist()
        return totals

    def of_changes() -> dict[str, Any]:
        epochs = inputs.epochs
        advertised = (
            {row.epoch: row.last_ns for row in advertised_again(frames).collect()} if epochs.changes else {}
        )
        return {"epochs": epochs.committed, "recovery_s": recovery(epochs.changes, advertised, clock)}

    def of_links() -> dict[str, Any]:
        write("control_share_curve", accounting.control_share_curve(frames, clock))
        return _one(accounting.repeated_total(accounting.repeated(frames)))

    # A small run's queries spend their time in planning, each on one processor.
    with ThreadPoolExecutor(max_workers=_QUERIES_AT_ONCE) as pool:
        convergence = pool.submit(_convergence, spark, frames, inputs)
        parts = [pool.submit(part) for part in (of_applications, of_frames, of_routers, of_links, of_changes)]
        totalling = pool.submit(of_traffic)
        try:
            totals = totalling.result()
            counted = {key: value for part in parts for key, value in part.result().items()}
        except BaseException:
            # An error or Ctrl-C does not wait for the other queries.
            pending: list[Future[Any]] = [*parts, totalling]
            for future in pending:
                future.cancel()
            spark.sparkContext.cancelAllJobs()
            raise
    if small:
        frames.unpersist()
    if not all_hosts_captured:
        counted |= processed_by_counters(routers.values())
    return {
        "messages_sent": inputs.log.sent.num_rows,
        "messages_planned": sum(item.get("action") == "send_message" for item in inputs.workload),
        **counted,
        **_traffic_summary(totals),
        "links_captured": len(captured_links),
        "host_links_captured": len(captured_routers),
        "capture_drops": sum(capture.dropped for capture in inputs.captures),
        "socket_drops": sum(counters.get("socket_drops", 0) for counters in routers.values()),
        "router_send_drops": sum(
            counters.get("dropped", {}).get(reason, 0)
            for counters in routers.values()
            for reason in ("unencodable", "send_queue_full")
        ),
        "reconciliation": {
            "tshark": reconcile_tshark(totals, counting.result(), inputs.captures),
            "routers": reconcile_routers(totals, captured_routers),
            "ovs": reconcile_ovs(totals, captured_ports, captured_links),
        },
    }


def _write_frames(frames: DataFrame, folder: str) -> None:
    frames.write.mode("overwrite").partitionBy("type").parquet(folder)


def _write(table: DataFrame, folder: Path, *, collect: bool) -> None:
    """Writes a table as a folder of one Parquet file, in place of what was there.

    Through this process if `collect`: a job of Spark's that writes takes longer than a small table does.
    """
    if not collect:
        table.coalesce(1).write.mode("overwrite").parquet(str(folder))
        return
    rows = table.toArrow()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pq.write_table(rows, folder / "part-0.parquet")


def _convergence(spark: SparkSession, frames: DataFrame, inputs: _Inputs) -> tuple[float | None, int]:
    """Convergence time in wall seconds (None: no RA of the first wave was captured), and its end in ns."""
    if not inputs.opening:
        return None, inputs.clock.start_ns
    opening = spark.createDataFrame(opening_table(inputs.opening))
    last_ns = _one(accounting.first_wave_end(frames, opening))["last_ns"]
    if last_ns is None:
        return None, max(first.confirmed_ns for first in inputs.opening.values())
    return (last_ns - inputs.clock.start_ns) / 1e9, last_ns


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


def _one(table: DataFrame) -> dict[str, Any]:
    """The only row of a table of totals."""
    (row,) = table.collect()
    values: dict[str, Any] = row.asDict()
    return values
