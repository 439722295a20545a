"""The traffic of a running experiment: structured streaming over captures that grow."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

from captures.datasource.formats import register
from captures.pcap.writing import FILE_HEADER, record_header
from captures.rundir.capture_list import capture_paths
from captures.rundir.layout import RunLayout, link_capture_name
from router.wire.addresses import ETHERTYPE
from router.wire.header import HEADER_LENGTH, UNDECODABLE

#: Width of the time slots in which frames are counted, in nanoseconds.
SLOT_NS = 500_000_000


@dataclass(frozen=True, slots=True)
class LinkCount:
    """Frames of one type that crossed one link in one slot of wall-clock time.

    Attributes:
        slot: its number: ns since 1970 UTC, divided by `SLOT_NS`.
    """

    link: int
    type: str
    slot: int
    frames: int
    bytes: int


def stream_counts(
    spark: SparkSession,
    run_dir: Path,
    take: Callable[[Sequence[LinkCount]], None],
    work: Path,
    interval_s: float,
) -> StreamingQuery:
    """Starts to count the frames on the links of a run, from the beginning of its captures on.

    Args:
        take: called for every micro-batch, in a thread of its own; each frame is in one batch. The first
            batch may be empty: it reads a capture of one frame that is made for it, because the first batch
            of a session is slow and should not wait for the first frame of the run.
        work: an empty folder, for Spark's checkpoint and for that capture.
        interval_s: wall seconds between two batches.

    Returns:
        The running query. It fails if a capture is no capture, or shrinks.

    Raises:
        RunFolderError: the topology of the run is missing or malformed.
    """
    register(spark)
    run = RunLayout(run_dir)
    link_of = {identity.name: identity.link for identity in capture_paths(run).values()}

    def batch(frames: DataFrame, _number: int) -> None:
        rows = counts(frames).collect()
        take([LinkCount(link, *rest) for name, *rest in rows if (link := link_of.get(name)) is not None])

    frames = (
        spark.readStream.format("cbcb")
        .option("columns", "capture,type,time_ns,length")
        .option("paths", json.dumps([str(_first_capture(work / "first")), str(run.captures_folder)]))
        # Every frame between routers crosses a link; host links would show each frame twice more.
        .option("pathGlobFilter", run.capture(link_capture_name("*", "*")).name)
        .option("partitions", "1")
        .load()
    )
    return (
        frames.writeStream.foreachBatch(batch)
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(processingTime=f"{interval_s:g} seconds")
        .start()
    )


def counts(frames: DataFrame) -> DataFrame:
    """Frames and bytes by capture, type and slot."""
    return frames.groupBy(
        "capture",
        sf.coalesce("type", sf.lit(UNDECODABLE)).alias("type"),
        sf.expr(f"time_ns div {SLOT_NS}").alias("slot"),
    ).agg(sf.count("*").alias("frames"), sf.sum("length").alias("bytes"))


def _first_capture(folder: Path) -> Path:
    """Makes a folder with a capture of one empty frame, which belongs to no link."""
    folder.mkdir(parents=True)
    frame = bytes(12) + ETHERTYPE.to_bytes(2, "big") + bytes(HEADER_LENGTH)
    name = link_capture_name("first", "frame")
    (folder / f"{name}.pcap").write_bytes(FILE_HEADER + record_header(0, len(frame)) + frame)
    return folder
