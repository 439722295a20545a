"""Frames and bytes: by link, direction, type and time; by router; by capture."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.accounting.expressions import experiment_seconds, total
from captures.frames.decoder import FROM_ROUTER, TO_ROUTER
from captures.rundir.clock import Clock
from router.wire.header import UNDECODABLE

CONTROL_TYPES = ("RA", "SR", "UR")
_CAPTURE = ("capture", "kind", "link", "node", "direction", "from_node", "to_node", "type")


def traffic(frames: DataFrame, clock: Clock, bin_s: float) -> DataFrame:
    """Frames and bytes per capture, direction, type and time bin: the base of all totals.

    Columns: capture, kind, link, node, direction, from_node, to_node, type, bin_s (start of the bin,
    experiment seconds), frames, bytes, undecodable (frames that do not decode), first_ns, last_ns.
    """
    return (
        frames.withColumn("type", F.coalesce("type", F.lit(UNDECODABLE)))
        .withColumn("bin_s", F.floor(experiment_seconds(clock, F.col("time_ns")) / bin_s) * F.lit(bin_s))
        .groupBy(*_CAPTURE, "bin_s")
        .agg(
            F.count("*").alias("frames"),
            F.sum("length").cast("bigint").alias("bytes"),
            F.count("undecodable").alias("undecodable"),
            F.min("time_ns").alias("first_ns"),
            F.max("time_ns").alias("last_ns"),
        )
    )


def capture_totals(traffic_table: DataFrame) -> DataFrame:
    """Per capture, direction and type: the traffic table without its bins."""
    return traffic_table.groupBy(*_CAPTURE).agg(
        *(total(name) for name in ("frames", "bytes", "undecodable")),
        F.min("first_ns").alias("first_ns"),
        F.max("last_ns").alias("last_ns"),
    )


def link_bins(traffic_table: DataFrame, bin_s: float) -> DataFrame:
    """Per link, direction, type and bin: link, from_node, to_node, type, bin_s, frames, bytes, frames_per_s,
    bytes_per_s (both per experiment second)."""
    return traffic_table.where("kind = 'link'").select(
        *("link", "from_node", "to_node", "type", "bin_s", "frames", "bytes"),
        (F.col("frames") / bin_s).alias("frames_per_s"),
        (F.col("bytes") / bin_s).alias("bytes_per_s"),
    )


def link_totals(bins: DataFrame) -> DataFrame:
    """Per link, direction and type: link, from_node, to_node, type, frames, bytes."""
    return _sum(bins, "link", "from_node", "to_node", "type")


def type_bins(bins: DataFrame, bin_s: float) -> DataFrame:
    """Per type and bin, over all links: type, bin_s, frames, bytes, frames_per_s, bytes_per_s."""
    return _sum(bins, "type", "bin_s").select(
        "*", (F.col("frames") / bin_s).alias("frames_per_s"), (F.col("bytes") / bin_s).alias("bytes_per_s")
    )


def utilisation(bins: DataFrame, links: DataFrame, clock: Clock, bin_s: float) -> DataFrame:
    """How full each direction of a link was in each bin that it carried anything in.

    Columns: link, from_node, to_node, bin_s, bytes, bits_per_s (per wall second: bandwidth is not scaled),
    utilisation (of the bandwidth, 0 to 1; null where the topology declares none). Bytes are those of the
    Ethernet frames, without preamble, check sequence and gap.
    """
    bits_per_s = F.col("bytes") * F.lit(8 * clock.time_scale / bin_s)
    return (
        _sum(bins.where("from_node is not null"), "link", "from_node", "to_node", "bin_s")
        .drop("frames")
        .join(F.broadcast(links.select("link", "bandwidth_mbps")), "link")
        .withColumn("bits_per_s", bits_per_s)
        .withColumn("utilisation", F.col("bits_per_s") / (F.col("bandwidth_mbps") * 1e6))
        .drop("bandwidth_mbps")
    )


def talkers(totals: DataFrame) -> DataFrame:
    """What each router sent and took, from the captures of the host links (`capture_totals`).

    A frame to several neighbours leaves its router once. Columns: node, type, frames_sent, bytes_sent,
    frames_received, bytes_received.
    """
    ways = (("sent", FROM_ROUTER), ("received", TO_ROUTER))
    return (
        totals.where("kind = 'host'")
        .groupBy("node", "type")
        .agg(
            *(
                total(name, f"direction = '{direction}'").alias(f"{name}_{way}")
                for way, direction in ways
                for name in ("frames", "bytes")
            )
        )
    )


def advertised(frames: DataFrame) -> DataFrame:
    """What RAs and URs told each other on links, one row a predicate and type; fragments count as one.

    Columns: type, predicate (text), issuers (how many nodes issued it), crossings (how often it crossed a
    link), body_bytes (of all these).
    """
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


def capture_health(totals: DataFrame, files: DataFrame, clock: Clock) -> DataFrame:
    """One row a capture: what it holds, and what speaks against it.

    Args:
        totals: `capture_totals`.
        files: capture, kind, link, node, captured, received_by_filter, dropped_by_kernel (frames, as tcpdump
            counted), defect (null: the file is whole).

    Columns: those of `files`, frames, bytes, undecodable, first_s, last_s (null: it holds no frame).
    """
    held = totals.groupBy("capture").agg(
        *(total(name) for name in ("frames", "bytes", "undecodable")),
        experiment_seconds(clock, F.min("first_ns")).alias("first_s"),
        experiment_seconds(clock, F.max("last_ns")).alias("last_s"),
    )
    return files.join(held, "capture", "left").fillna(0, ["frames", "bytes", "undecodable"])


def _sum(table: DataFrame, *by: str) -> DataFrame:
    return table.groupBy(*by).agg(total("frames"), total("bytes"))
