"""The accounting of one run: reads its folder, writes its tables, returns its part of summary.json."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from captures.accounting.traffic import CONTROL_TYPES
from captures.inputs import Inputs, capture_files, defects, read_inputs, written_tables
from captures.partial import captured_only, processed_by_counters
from captures.passes import Passes
from captures.reconcile import Total, reconcile_ovs, reconcile_routers, reconcile_tshark, tshark_counts
from captures.rundir import LinkEnds, RunFolder
from captures.session import spark_session
from captures.source import captured_frames
from captures.summary import verdict
from router.wire.header import TYPE_NAMES

#: Captures of fewer bytes than this make a small run: about 100,000 frames.
_SMALL_BYTES = 20_000_000
#: Captures of more, about a million frames, are worth a JVM that compiles longer.
_LARGE_BYTES = 100_000_000


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
    inputs = read_inputs(RunFolder(run_dir))
    files = {capture.identity.name: run_dir / capture.file for capture in inputs.captures}
    size = sum(path.stat().st_size for path in files.values())
    log = run_dir / "logs" / "spark.log"
    session = nullcontext(spark) if spark else spark_session(master, log, large=size > _LARGE_BYTES)
    # tshark and the walks need no Spark: they go on while it starts.
    with ThreadPoolExecutor(max_workers=3) as pool:
        counting = pool.submit(tshark_counts, files)
        walking = pool.submit(defects, files)
        tables = pool.submit(written_tables, inputs)
        with session as active:
            passes = Passes(
                active,
                inputs,
                captured_frames(active, run_dir, partitions),
                capture_files(inputs.captures, walking.result()),
                tables.result(),
                small=size < _SMALL_BYTES,
            )
            totals, counted = passes.run()
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
            "tshark": reconcile_tshark(totals, counting.result(), inputs.captures),
            "routers": reconcile_routers(totals, routers),
            "ovs": reconcile_ovs(totals, ports, links),
        },
    }
    holds, reasons = verdict(summary, [] if inputs.simulated else _uncaptured(inputs, routers, links))
    summary["verdict"] = "holds" if holds else "fails"
    summary["verdict_reasons"] = reasons
    summary["accounting_s"] = round(time.monotonic() - started, 3)
    return summary


def _uncaptured(inputs: Inputs, routers: Collection[int], links: Collection[LinkEnds]) -> list[str]:
    """What an emulation should have captured, and has not; a simulation may leave captures out."""
    return [
        *(f"{link.u}-{link.v}" for link in inputs.links if link not in links),
        *(f"the host link of node {node}" for node in inputs.router_counters if node not in routers),
    ]


def _log_summary(inputs: Inputs) -> dict[str, Any]:
    """The keys that come from logs and counters alone."""
    counters = inputs.router_counters.values()
    return {
        "messages_sent": inputs.log.sent.num_rows,
        "messages_planned": sum(item.get("action") == "send_message" for item in inputs.workload),
        "capture_drops": sum(capture.dropped for capture in inputs.captures),
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
