"""Captures that grow, as a stream: whole records only, each once, over restarts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from captures.datasource.formats import register
from router.predicates import Message, Value
from router.wire.codec import fragment
from router.wire.frames import Frame, FrameType
from router.wire.header import node_address
from tests.support.run_folder import pcap_bytes

pytestmark = pytest.mark.spark

LONG = "x" * 4000


def _frames() -> list[bytes]:
    """A message, one in three fragments, a message."""
    messages: list[dict[str, Value]] = [{"n": 0}, {"n": 1, "text": LONG}, {"n": 2}]
    return [
        bytes.fromhex("030000000001") + node_address(0) + b"\x88\xb5" + payload
        for seq, attributes in enumerate(messages)
        for payload in fragment(Frame(FrameType.MSG, 0, seq, 1, 64, Message(attributes)))
    ]


class _Stream:
    """A query over a folder of captures that writes to Parquet, started again at will."""

    def __init__(self, spark: SparkSession, folder: Path, pcap: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._pcap = pcap
        self._query: StreamingQuery | None = None

    def start(self) -> None:
        loaded = self._spark.readStream.format("cbcb").load(str(self._pcap))
        self._query = (
            loaded.selectExpr("capture", "time_ns", "attributes['n'].integer as n", "fragment", "undecodable")
            .writeStream.format("parquet")
            .option("path", str(self._folder / "out"))
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .start()
        )

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()

    def rows(self) -> list[Row]:
        """All that has been written, when everything there is has been read."""
        assert self._query is not None
        self._query.processAllAvailable()
        written = self._spark.read.parquet(str(self._folder / "out"))
        rows: list[Row] = written.orderBy("capture", "time_ns").collect()
        return rows


def test_a_growing_capture_is_read_to_its_last_whole_record(tmp_path: Path, spark: SparkSession) -> None:
    register(spark)
    frames = _frames()
    content = pcap_bytes([(10 + number, frame) for number, frame in enumerate(frames)])
    sizes = [16 + len(frame) for frame in frames]
    ends = [24 + sum(sizes[:count]) for count in range(len(sizes) + 1)]
    pcap = tmp_path / "pcap"
    pcap.mkdir()
    file = pcap / "link-0-1.pcap"
    stream = _Stream(spark, tmp_path, pcap)
    try:
        file.write_bytes(content[:10])
        stream.start()
        # Not even the header; one byte short of a record; inside the second fragment.
        for size, whole in ((24, 0), (ends[1] - 1, 0), (ends[2] + 7, 2)):
            file.write_bytes(content[:size])
            if whole:
                assert len(stream.rows()) == whole
        stream.stop()
        # What is written while nobody reads, and a file that appears.
        file.write_bytes(content)
        (pcap / "host-0.pcap").write_bytes(content[: ends[1]])
        stream.start()
        rows = stream.rows()
        assert [(row.capture, row.time_ns) for row in rows] == [
            ("host-0", 10),
            *(("link-0-1", 10 + number) for number in range(len(frames))),
        ]
        # The fragments before the restart and those after it make one message.
        assert [row.n for row in rows] == [0, 0, None, None, 1, 2]
        assert [row.fragment for row in rows[1:]] == ["whole", "partial", "partial", "completing", "whole"]
        assert {row.undecodable for row in rows} == {None}
        file.write_bytes(content[: ends[2]])
        with pytest.raises(StreamingQueryException, match="has shrunk from"):
            stream.rows()
        # What has been read is as long as what takes its place.
        file.write_bytes(content)
        stream.start()
        assert len(stream.rows()) == len(rows)
        # At once: the stream may look at any time, also at a file that is being written.
        other = file.with_suffix(".other")
        other.write_bytes(pcap_bytes([(100 + number, frame) for number, frame in enumerate(frames)]))
        other.replace(file)
        with pytest.raises(StreamingQueryException, match="has been replaced by another file"):
            stream.rows()
    finally:
        stream.stop()
