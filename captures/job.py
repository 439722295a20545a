"""The accounting of one run: reads its folder, writes its tables, returns its part of summary.json."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from captures import accounting
from captures.accounting import CONTROL_TYPES, Clock
from captures.logs import ApplicationLog, FirstPredicate, opening_predicates, opening_table, read_applications
from captures.logs import read_oracle as read_oracle_answers
from captures.pcap import tail_defect
from captures.reconcile import Total, reconcile_ovs, reconcile_routers, reconcile_tshark, tshark_counts
from captures.recovery import advertised_again, read_epochs, recovery
from captures.rundir import CapturedFile, RunFolder
from captures.session import spark_session
from captures.source import NAME
from captures.summary import verdict

_MOST_BINS = 300


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
    start Spark unless `spark`, a session with the capture source registered, is given.

    Raises:
        RunFolderError: a file of the run folder is missing or bad.
        PcapError: a capture file is no pcap file.
        TsharkError: tshark cannot be run.
    """
    started = time.monotonic()
    inputs = _read(RunFolder(run_dir))
    files = {capture.identity.name: run_dir / capture.file for capture in inputs.captures}
    session = nullcontext(spark) if spark else spark_session(master, run_dir / "logs" / "spark.log")
    # tshark needs no Spark: it counts while Spark starts.
    with ThreadPoolExecutor(max_workers=1) as pool:
        counting = pool.submit(tshark_counts, files)
        defects = [f"{name}: {defect}" for name, path in files.items() if (defect := tail_defect(path))]
        with session as active:
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
    return _Inputs(
        run=run,
        captures=run.captures(),
        log=log,
        oracle=read_oracle_answers(run),
        workload=workload,
        opening=opening_predicates(log, workload),
        clock=Clock(start_ns, float(manifest["time_scale"])),
    )


def _account(
    spark: SparkSession, inputs: _Inputs, counting: Future[dict[str, int]], partitions: int
) -> dict[str, Any]:
    run, clock = inputs.run, inputs.clock
    tables = run.path / "parquet"
    source = spark.read.format(NAME).option("run", str(run.path.resolve())).option("partitions", partitions)
    source.load().write.mode("overwrite").partitionBy("type").parquet(str(tables / "frames"))
    # Read back, so that each capture is decoded once.
    frames = spark.read.schema(source.load().schema).parquet(str(tables / "frames"))
    sent = spark.createDataFrame(inputs.log.sent)
    deliveries = spark.createDataFrame(inputs.log.deliveries)
    oracle = spark.createDataFrame(inputs.oracle)

    traffic = accounting.traffic(frames, clock, inputs.bin_s).cache()
    bins = accounting.link_bins(traffic)
    outcomes = accounting.outcomes(oracle, deliveries, sent).cache()
    processed = accounting.processed(frames, sent, deliveries).cache()
    for name, table in {
        "link_bins": bins,
        "link_totals": accounting.link_totals(bins),
        "type_bins": accounting.type_bins(bins),
        "messages": accounting.messages(sent, outcomes, clock),
        "false_negative_curve": accounting.false_negative_curve(outcomes, clock),
        "false_positive_curve": accounting.false_positive_curve(processed, clock),
        "control_share_curve": accounting.control_share_curve(frames, clock),
    }.items():
        table.coalesce(1).write.mode("overwrite").parquet(str(tables / name))

    totals = [Total(**row.asDict()) for row in accounting.capture_totals(traffic).collect()]
    convergence_s, converged_ns = _convergence(spark, frames, inputs)
    summary: dict[str, Any] = {
        "messages_sent": inputs.log.sent.num_rows,
        "messages_planned": sum(item.get("action") == "send_message" for item in inputs.workload),
        **_one(accounting.outcome_totals(outcomes, converged_ns)),
        "convergence_s": convergence_s,
        **_one(accounting.processed_totals(processed)),
        **_traffic_summary(totals),
        "frames_repeated": _one(accounting.repeated_total(accounting.repeated(frames)))["frames_repeated"],
        "capture_drops": sum(capture.dropped for capture in inputs.captures),
    }
    routers = run.router_counters()
    epochs = read_epochs(run)
    summary["epochs"] = epochs.committed
    advertised = (
        {row.epoch: row.last_ns for row in advertised_again(frames).collect()} if epochs.changes else {}
    )
    summary["recovery_s"] = recovery(epochs.changes, advertised, clock)
    summary["socket_drops"] = sum(counters.get("socket_drops", 0) for counters in routers.values())
    summary["reconciliation"] = {
        "tshark": reconcile_tshark(totals, counting.result(), inputs.captures),
        "routers": reconcile_routers(totals, routers),
        "ovs": reconcile_ovs(totals, run.ovs_counters(), run.links()),
    }
    for table in (traffic, outcomes, processed):
        table.unpersist()
    return summary


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
        **{key: dict(sorted((+counts).items())) for key, counts in by.items()},
        "frames_captured": captured,
        "frames_undecodable": undecodable,
        "control_share": control / protocol if protocol else None,
    }


def _one(table: DataFrame) -> dict[str, Any]:
    """The only row of a table of totals."""
    (row,) = table.collect()
    values: dict[str, Any] = row.asDict()
    return values
