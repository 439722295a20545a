"""Packets written as captures: the same packets when read, also by tshark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType, TimestampType

from captures.datasource.formats import CbcbSource, PcapSource
from captures.datasource.options import OptionError
from captures.datasource.packet_writer import PacketWriter
from captures.pcap.reader import PcapReader, Record

_SCHEMA = StructType(
    [
        StructField("data", BinaryType()),
        StructField("time_ns", LongType()),
        StructField("length", LongType()),
        StructField("link_type", IntegerType()),
    ]
)
_ROWS: list[dict[str, Any]] = [
    {"data": bytes([number]) * 60, "time_ns": 10**18 + number, "length": 60 + number, "link_type": link_type}
    for number, link_type in enumerate([1, 1, 101, 1])
]


def _writer(folder: Path, *, overwrite: bool = False, schema: StructType = _SCHEMA) -> PacketWriter:
    writer = PcapSource({"path": str(folder)}).writer(schema, overwrite)
    assert isinstance(writer, PacketWriter)
    return writer


def _batch(rows: list[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows)


def _records(folder: Path) -> list[Record]:
    found = [PcapReader(path, link_type=None).records() for path in sorted(folder.glob("*.pcap"))]
    return sorted(record for records in found for record in records)


def test_packets_are_read_as_they_were_written(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    message = writer.write(iter([_batch(_ROWS[:2]), _batch(_ROWS[2:])]))
    assert _records(tmp_path) == []
    writer.commit([message, None])
    assert _records(tmp_path) == [Record(row["time_ns"], 60, row["length"], row["data"]) for row in _ROWS]
    assert sorted(path.name.partition("-link")[2] for path in tmp_path.iterdir()) == ["1.pcap", "101.pcap"]


def test_a_failed_write_leaves_nothing_and_an_overwrite_only_its_own(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    writer.write(iter([_batch(_ROWS)]))
    writer.abort([None])
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "notes.txt").write_text("mine")
    for overwrite, count in ((False, 1), (False, 2), (True, 1)):
        writer = _writer(tmp_path, overwrite=overwrite)
        writer.commit([writer.write(iter([_batch(_ROWS[:1])]))])
        assert len(_records(tmp_path)) == count
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_times_of_spark_serve_too(tmp_path: Path) -> None:
    schema = StructType([StructField("data", BinaryType()), StructField("time", TimestampType())])
    times = pa.array([1_500_000], pa.timestamp("us", "UTC"))
    writer = _writer(tmp_path, schema=schema)
    batch = pa.RecordBatch.from_arrays([pa.array([b"x"]), times], ["data", "time"])
    writer.commit([writer.write(iter([batch]))])
    assert _records(tmp_path) == [Record(1_500_000_000, 1, 1, b"x")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time_ns": None}, "a packet has no time or no data; expected both"),
        ({"time_ns": -1}, "time_ns -1 and length 60; expected a time from 1970 to 2106"),
        (
            {"length": 2**32},
            "length 4294967296; expected a time from 1970 to 2106 and a length of less than 4 GiB",
        ),
    ],
)
def test_packets_that_pcap_cannot_hold_are_errors(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    batch = pa.RecordBatch.from_pylist([{**_ROWS[0], **change}], _batch(_ROWS).schema)
    with pytest.raises(OptionError, match=message):
        _writer(tmp_path).write(iter([batch]))


def test_tables_that_hold_no_packets_are_errors(tmp_path: Path) -> None:
    source = PcapSource({"path": str(tmp_path)})
    with pytest.raises(OptionError, match="expected the columns data, and time_ns or time"):
        source.writer(StructType([StructField("data", BinaryType())]), False)
    with pytest.raises(OptionError, match="pcap: column time_ns is int; expected bigint"):
        source.writer(StructType([StructField("time_ns", IntegerType())]), False)
    with pytest.raises(OptionError, match="cbcb: frames cannot be written"):
        CbcbSource({"path": str(tmp_path)}).writer(_SCHEMA, False)
