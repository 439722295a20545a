"""Frames and bytes: by link, direction, type and time; by router; by capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.accounting.expressions import count_if, total
from captures.accounting.reconcile import Total
from captures.accounting.registry import ALWAYS, step, summary, table
from captures.accounting.sources import Run
from captures.accounting.times import experiment_seconds, wall_seconds
from captures.frames.columns import FROM_ROUTER, PARTIAL, TO_ROUTER, TYPES
from captures.rundir.capture_list import CapturedFile
from captures.rundir.clock import Clock
from router.wire.header import UNDECODABLE

#: The columns of `directions`.
DIRECTIONS = pa.schema([(name, pa.int32()) for name in ("link", "from_node", "to_node")])
CONTROL_TYPES = ("RA", "SR", "UR")
#: The SQL condition on a captured frame that brings a CBCB frame to its end.
WHOLE = f"undecodable is null and fragment <> '{PARTIAL}'"
_CAPTURE = ("capture", "kind", "link", "node", "direction", "from_node", "to_node", "type")


@step(kept=ALWAYS)
def traffic(frames: DataFrame, clock: Clock, bin_s: float) -> DataFrame:
    """Frames and bytes for each capture, direction, type and time bin: the base of all totals.

    Columns: capture, kind, link, node, direction, from_node, to_node, type, bin_s (start of the bin,
    experiment seconds), frames, bytes, undecodable (frames that do not decode), first_ns, last_ns, whole, own
    (`Total`).
    """
    return (
        frames.withColumn("type", F.coalesce("type", F.lit(UNDECODABLE)))
        .withColumn("bin_s", F.floor(F.expr(experiment_seconds(clock, "time_ns")) / bin_s) * F.lit(bin_s))
        .groupBy(*_CAPTURE, "bin_s")
        .agg(
            F.count("*").alias("frames"),
            F.sum("length").cast("bigint").alias("bytes"),
            F.count("undecodable").alias("undecodable"),
            F.min("time_ns").alias("first_ns"),
            F.max("time_ns").alias("last_ns"),
            count_if(WHOLE).alias("whole"),
            count_if(f"{WHOLE} and issuer = node").alias("own"),
        )
    )


@step(kept=ALWAYS)
def capture_totals(traffic: DataFrame) -> DataFrame:
    """Frames and bytes for each capture, direction and type: `traffic` without its bins."""
    return traffic.groupBy(*_CAPTURE).agg(
        *(total(name) for name in ("frames", "bytes", "undecodable", "whole", "own")),
        F.min("first_ns").alias("first_ns"),
        F.max("last_ns").alias("last_ns"),
    )


@step()
def totals(capture_totals: DataFrame) -> list[Total]:
    """The rows of `capture_totals`."""
    return [Total(**row.asDict()) for row in capture_totals.collect()]


@table("link_bins")
def link_bins(traffic: DataFrame, bin_s: float) -> DataFrame:
    """The part of `traffic` that crossed links, with rates."""
    return traffic.where("kind = 'link'").select(
        *("link", "from_node", "to_node", "type", "bin_s", "frames", "bytes"),
        (F.col("frames") / bin_s).alias("frames_per_s"),
        (F.col("bytes") / bin_s).alias("bytes_per_s"),
    )


@table("link_totals")
def link_totals(link_bins: DataFrame) -> DataFrame:
    """`link_bins` summed over time."""
    return _sum(link_bins, "link", "from_node", "to_node", "type")


@table("type_bins")
def type_bins(link_bins: DataFrame, bin_s: float) -> DataFrame:
    """`link_bins` summed over links and directions."""
    return _sum(link_bins, "type", "bin_s").select(
        "*", (F.col("frames") / bin_s).alias("frames_per_s"), (F.col("bytes") / bin_s).alias("bytes_per_s")
    )


@step()
def directions(run: Run) -> DataFrame:
    """The directions of the captured links, with the columns of `DIRECTIONS`."""
    return run.frame(link_directions(run.inputs.captures))


def link_directions(captures: Iterable[CapturedFile]) -> pa.Table:
    """Returns the directions of the captured links, with the columns of `DIRECTIONS`."""
    ends = [(each.identity.link, each.identity.u, each.identity.v) for each in captures]
    rows = [(link, *pair) for link, u, v in ends if link is not None for pair in ((u, v), (v, u))]
    names = DIRECTIONS.names
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=DIRECTIONS)


@table("link_utilisation")
def utilisation(
    link_bins: DataFrame, links: DataFrame, directions: DataFrame, clock: Clock, bin_s: float, bins: int
) -> DataFrame:
    """The share of its bandwidth that each direction of a link carried in each bin.

    Bandwidth is per wall second: the time scale does not touch it. Bytes are those of the Ethernet frames,
    without preamble, check sequence and gap.

    Args:
        bins: number of the bins from second 0 to the last event of the run, in which directions may be idle.
    """
    key = ("link", "from_node", "to_node", "bin_s")
    numbers = F.explode(F.sequence(F.lit(0), F.lit(max(0, bins - 1))))
    starts = directions.where(F.lit(bins > 0)).select("*", numbers.alias("number"))
    idle = starts.select(*key[:3], (F.col("number") * F.lit(bin_s)).alias("bin_s"), F.lit(0).alias("bytes"))
    bits_per_s = F.col("bytes") * F.lit(8) / F.expr(wall_seconds(clock, "bin_s", bin_s))
    return (
        link_bins.where("from_node is not null")
        .select(*key, "bytes")
        .unionByName(idle)
        .groupBy(*key)
        .agg(total("bytes"))
        .join(F.broadcast(links.select("link", "bandwidth_mbps")), "link")
        .withColumn("bits_per_wall_s", bits_per_s)
        .withColumn("utilisation", F.col("bits_per_wall_s") / (F.col("bandwidth_mbps") * 1e6))
        .drop("bandwidth_mbps")
    )


@table("talkers")
def talkers(capture_totals: DataFrame) -> DataFrame:
    """The frames that each router sent and received, from the captures of the host links."""
    ways = (("sent", FROM_ROUTER), ("received", TO_ROUTER))
    return (
        capture_totals.where("kind = 'host'")
        .groupBy("node", "type")
        .agg(
            *(
                total(name, f"direction = '{direction}'").alias(f"{name}_{way}")
                for way, direction in ways
                for name in ("frames", "bytes")
            )
        )
    )


@table("advertised")
def advertised(frames: DataFrame) -> DataFrame:
    """The predicates that RAs and URs carried over links, and their cost."""
    return (
        frames.where("kind = 'link' and type in ('RA', 'UR') and fragment in ('whole', 'completing')")
        .where("undecodable is null")
        .groupBy("type", "predicate")
        .agg(
            F.count_distinct("issuer").alias("issuers"),
            F.count("*").alias("crossings"),
            F.sum("total_length").cast("bigint").alias("body_bytes"),
        )
    )


@table("captures")
def capture_health(capture_totals: DataFrame, files: DataFrame, clock: Clock) -> DataFrame:
    """The contents of each capture, the capture's own counters, and defects of the file.

    Args:
        files: the table of `captures.accounting.inputs.capture_files`.
    """
    held = capture_totals.groupBy("capture").agg(
        *(total(name) for name in ("frames", "bytes")),
        total("undecodable").alias("frames_undecodable"),
        F.expr(experiment_seconds(clock, "min(first_ns)")).alias("first_s"),
        F.expr(experiment_seconds(clock, "max(last_ns)")).alias("last_s"),
    )
    return files.join(held, "capture", "left").fillna(0, ["frames", "bytes", "frames_undecodable"])


@summary()
def frames_by_type(totals: Iterable[Total]) -> dict[str, Any]:
    """Frames and bytes by type, on links and on host links; the share of control frames on links."""
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
    for row in totals:
        where = "" if row.kind == "link" else "_host_links"
        by[f"frames_by_type{where}"][row.type] += row.frames
        by[f"bytes_by_type{where}"][row.type] += row.bytes
        captured += row.frames
        undecodable += row.undecodable
    return {
        **{key: every_type(counts, key.endswith("host_links")) for key, counts in by.items()},
        "frames_captured": captured,
        "frames_undecodable": undecodable,
        "control_share": control_share(by["frames_by_type"]),
    }


def control_share(on_links: Mapping[str, int]) -> float | None:
    """Returns the share of control frames among frames on links, by their types; None: no frame."""
    control = sum(on_links.get(kind, 0) for kind in CONTROL_TYPES)
    protocol = control + on_links.get("MSG", 0)
    return control / protocol if protocol else None


def every_type(counts: Mapping[str, int], host_links: bool) -> dict[str, int]:
    """Returns counts by type, 0 for types without frames.

    Frames of the controller cross host links alone.
    """
    usual = TYPES.values() if host_links else ["MSG", *CONTROL_TYPES]
    return {kind: counts.get(kind, 0) for kind in sorted({*usual, *(k for k, n in counts.items() if n)})}


def _sum(table: DataFrame, *by: str) -> DataFrame:
    return table.groupBy(*by).agg(total("frames"), total("bytes"))
