"""Captures that grow, as a stream: whole records only, each once, over restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from captures.datasource.formats import register
from router.predicates import Message, Value
from router.wire.codec import fragment
from router.wire.frames import Frame, FrameType
from router.wire.header import node_address
from tests.support.capture_files import pcap

pytestmark = pytest.mark.spark


def _frames() -> list[bytes]:
    """A message, one in three fragments, a message."""
    messages: list[dict[str, Value]] = [{"n": 0}, {"n": 1, "text": "x" * 4000}, {"n": 2}]
    return [
        bytes.fromhex("030000000001") + node_address(0) + b"\x88\xb5" + payload
        for seq, attributes in enumerate(messages)
        for payload in fragment(Frame(FrameType.MSG, 0, seq, 1, 64, Message(attributes)))
    ]


def test_a_growing_capture_is_read_to_its_last_whole_record(tmp_path: Path, spark: SparkSession) -> None:
    register(spark)
    frames = _frames()
    content = pcap(list(enumerate(frames, 10)))
    ends = list(accumulate((16 + len(frame) for frame in frames), initial=24))
    folder = tmp_path / "pcap"
    folder.mkdir()
    file = folder / "link-0-1.pcap"

    @contextmanager
    def stream() -> Iterator[Callable[[], list[Row]]]:
        """Runs a query to Parquet; yields what returns all that is written, once everything is read."""
        columns = ("capture", "time_ns", "attributes['n'].integer as n", "fragment", "undecodable")
        loaded = spark.readStream.format("cbcb").load(str(folder)).selectExpr(*columns)
        places = {"path": str(tmp_path / "out"), "checkpointLocation": str(tmp_path / "checkpoint")}
        query = loaded.writeStream.format("parquet").options(**places).start()

        def rows() -> list[Row]:
            query.processAllAvailable()
            written: list[Row] = spark.read.parquet(places["path"]).orderBy("capture", "time_ns").collect()
            return written

        try:
            yield rows
        finally:
            query.stop()

    file.write_bytes(content[:10])
    with stream() as rows:
        # Not even the header; one byte short of a record; inside the second fragment.
        for size in (24, ends[1] - 1, ends[2] + 7):
            file.write_bytes(content[:size])
        assert len(rows()) == 2
    # What is written while nobody reads, and a file that appears.
    file.write_bytes(content)
    (folder / "host-0.pcap").write_bytes(content[: ends[1]])
    with stream() as rows:
        found = rows()
    assert [(row.capture, row.time_ns) for row in found] == [
        ("host-0", 10),
        *(("link-0-1", 10 + number) for number in range(len(frames))),
    ]
    # The fragments before the restart and those after it make one message.
    assert [row.n for row in found] == [0, 0, None, None, 1, 2]
    assert [row.fragment for row in found[1:]] == ["whole", "partial", "partial", "completing", "whole"]
    assert {row.undecodable for row in found} == {None}


def test_a_followed_folder_with_limits_and_a_watermark(tmp_path: Path, spark: SparkSession) -> None:
    register(spark)
    captures = tmp_path / "captures"
    captures.mkdir()
    packets = [(1_700_000_000_000_000_000 + number * 10**9, bytes([number]) * 60) for number in range(40)]
    for number in range(4):
        (captures / f"{number}.pcap").write_bytes(pcap(packets[number * 10 : number * 10 + 10]))
    read = spark.readStream.format("pcap").options(columns="time,length", maxFilesPerTrigger="1")
    by_time = read.load(str(captures)).withWatermark("time", "5 seconds").groupBy("time").count()
    query = (
        by_time.writeStream.format("memory")
        .queryName("by_time")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]] == [10] * 4
    # The watermark ends the groups: only the last seconds are held back.
    assert spark.table("by_time").count() >= 30
