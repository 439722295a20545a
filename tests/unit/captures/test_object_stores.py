"""Captures by the URIs of an object store, on a server of S3 on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType, TimestampType

from captures.datasource.formats import CaptureReader, CbcbSource, PcapSource
from captures.datasource.opening import view_of
from captures.datasource.options import OptionError
from captures.datasource.packet_writer import PacketWriter
from captures.frames.parts import parts_of
from captures.pcap.reader import PcapReader, Record
from tests.support.capture_files import made_view, pcap
from tests.support.run_folder import good_run

_FIRST, _SECOND = pcap([(1, bytes(60))]), pcap([(2, bytes(60)), (3, bytes(60))])
_OBJECTS = {
    "bucket/day/a.pcap": _FIRST,
    "bucket/day/b c.pcap": _SECOND,
    "bucket/day/notes.txt": b"no capture",
    "bucket/day/late/d.pcap": pcap([(4, bytes(60))]),
    "bucket/run/host-1.pcap": pcap(good_run().pcaps["host-1"]),
}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The address of a server that holds `_OBJECTS`."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"{host}:{port}"
    with pytest.MonkeyPatch.context() as patch:
        _set_keys(patch)
        store = fs.S3FileSystem(endpoint_override=address, scheme="http", allow_bucket_creation=True)
        store.create_dir("bucket")
        for name, content in _OBJECTS.items():
            with store.open_output_stream(name) as file:
                file.write(content)
    yield address
    server.stop()


def _set_keys(patch: pytest.MonkeyPatch) -> None:
    keys = {"ACCESS_KEY_ID": "someone", "SECRET_ACCESS_KEY": "secret", "REGION": "us-east-1"}
    for name, value in {**keys, "EC2_METADATA_DISABLED": "true"}.items():
        patch.setenv(f"AWS_{name}", value)


@pytest.fixture
def settings(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The part of a URI that names the endpoint."""
    _set_keys(monkeypatch)
    return f"?region=us-east-1&scheme=http&endpoint_override={endpoint}"


def _rows(uri: str, source: type[PcapSource] = PcapSource, **options: str) -> list[dict[str, Any]]:
    view = view_of(source.name(), {"path": uri, **options})
    parts = [part for group in CaptureReader(view).partitions() for part in group.parts]
    return sorted(
        (row for batch in view.read_all(parts) for row in batch.to_pylist()), key=lambda row: str(row)
    )


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_uris_name_files_folders_and_globs(settings: str, scheme: str) -> None:
    def times(path: str, **options: str) -> list[int]:
        rows = _rows(f"{scheme}://bucket{path}{settings}", PcapSource, columns="time_ns", **options)
        return [row["time_ns"] for row in rows]

    assert times("/day/a.pcap") == [1]
    assert times("/day/b%20c.pcap") == times("/day/b c.pcap") == [2, 3]
    assert times("/day") == [1, 2, 3]
    assert times("/day", recursiveFileLookup="true") == [1, 2, 3, 4]
    assert times("/day/*/d.pcap") == [4]
    assert times("/day/{a,x}*") == [1]


def test_frames_of_a_uri_are_those_of_the_file(settings: str, tmp_path: Path) -> None:
    (tmp_path / "host-1.pcap").write_bytes(_OBJECTS["bucket/run/host-1.pcap"])
    found = _rows(f"s3://bucket/run/host-1.pcap{settings}", CbcbSource)
    assert found == _rows(str(tmp_path / "host-1.pcap"), CbcbSource)
    assert len(found) == len(good_run().pcaps["host-1"])


def test_a_remote_file_is_split(settings: str) -> None:
    uri = f"s3://bucket/run/host-1.pcap{settings}"
    parts = parts_of(uri, 500)
    assert len(parts) > 3
    view = made_view("packets", ("packet",))
    numbers = [row["packet"] for part in parts for batch in view.read(part) for row in batch.to_pylist()]
    assert numbers == [each + 1 for each in range(len(good_run().pcaps["host-1"]))]


def test_a_missing_object_is_one_line(settings: str) -> None:
    uri = f"s3://bucket/day/none.pcap{settings}"
    with pytest.raises(FileNotFoundError) as caught:
        _rows(uri)
    assert str(caught.value) == f"{uri}: no such file or directory"


def test_packets_are_written_to_a_bucket(settings: str) -> None:
    schema = from_arrow_schema(pa.schema([("data", pa.binary()), ("time_ns", pa.int64())]))
    writer = PacketWriter({"path": f"s3://bucket/written{settings}"}, schema, overwrite=False)
    batch = pa.RecordBatch.from_pydict({"data": [b"x" * 60], "time_ns": [7]})
    writer.commit([writer.write(iter([batch]))])
    (row,) = _rows(f"s3://bucket/written{settings}", PcapSource, columns="file,time_ns,length")
    assert (row["time_ns"], row["length"]) == (7, 60)
    assert row["file"].startswith("s3://bucket/written/part-00000-")


def test_wrong_keys_name_the_bucket_and_the_remedy(settings: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moto.settings.INITIAL_NO_AUTH_ACTION_COUNT", 0)  # it checks keys from now on
    said = (
        "s3://bucket: When .*ACCESS_DENIED.*; keys, region and endpoint are those of the environment or of "
    )
    with pytest.raises(OSError, match=said):
        _rows(f"s3://bucket/day{settings}")


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("hdfs://127.0.0.1:1/x", ".*; expected file:, s3:, gs:, abfs:, or hdfs: with libhdfs"),
        ("unheard://x/y", "Unrecognized filesystem type in URI: unheard://x/y; expected file:, "),
    ],
)
def test_a_file_system_that_is_missing_is_one_line(uri: str, said: str) -> None:
    with pytest.raises(OSError, match=f"{uri}: {said}") as caught:
        _rows(uri)
    assert "\n" not in str(caught.value)


# Packets written as captures: the same packets when read, also by tshark.


_KINDS = {"data": BinaryType, "time_ns": LongType, "length": LongType, "link_type": IntegerType}
_SCHEMA = StructType([StructField(name, kind()) for name, kind in _KINDS.items()])
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
def test_packets_beyond_pcap_are_errors(tmp_path: Path, change: dict[str, object], message: str) -> None:
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
