"""Conventions of Spark's own formats: modes, times of files, alternatives in globs, limits of batches."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from captures.datasource.formats import CbcbSource, PcapSource
from captures.datasource.options import OptionError, read_options
from captures.datasource.streaming import GrowingCaptures
from captures.datasource.views import PCAP_VIEWS, MalformedPacketError, view_of
from captures.frames.index import index_file
from captures.frames.parts import FilePart
from captures.pcap.listing import list_captures
from tests.support.capture_files import enhanced, interface, pcap, section

GOOD, SHORT = bytes(60), bytes(9)
PACKETS = [(number * 10**9, bytes([number]) * 60) for number in range(40)]


def _rows(path: Path, **options: str) -> list[dict[str, Any]]:
    view = view_of(read_options("pcap", {"path": str(path), **options}, PCAP_VIEWS))
    return [row for batch in view.read(FilePart(str(path))) for row in batch.to_pylist()]


def test_modes_say_what_becomes_of_packets_that_do_not_decode(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([(1, GOOD), (2, SHORT), (3, GOOD)]))
    columns = "time_ns"
    assert [row["time_ns"] for row in _rows(path, columns=columns)] == [1, 2, 3]
    assert [row["time_ns"] for row in _rows(path, columns=columns, mode="dropmalformed")] == [1, 3]
    with pytest.raises(MalformedPacketError, match=r"a\.pcap: packet 2: truncated$"):
        _rows(path, columns=columns, mode="FAILFAST", ignoreCorruptFiles="true")


def test_modes_say_what_becomes_of_a_file_that_ends_in_a_record(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([(1, GOOD), (2, GOOD)])[:-1])
    with pytest.warns(UserWarning, match="ends inside a record"):
        assert len(_rows(path)) == 1
    with pytest.raises(MalformedPacketError, match="ends inside a record"):
        _rows(path, mode="FAILFAST")


def test_packets_of_other_links_are_not_malformed(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([(1, GOOD)], link_type=113))
    assert len(_rows(path, mode="FAILFAST")) == 1


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("mode", "strict", "option mode: 'strict'; expected PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ("ignoreMissingFiles", "yes", "option ignoreMissingFiles: 'yes'; expected true or false"),
        ("modifiedAfter", "noon", "option modifiedAfter: 'noon'; expected a time such as 2026"),
        ("maxBytesPerTrigger", "big", "option maxBytesPerTrigger: 'big'; expected a size above 0, such as"),
        ("maxFilesPerTrigger", "0", "option maxFilesPerTrigger: '0'; expected a whole number above 0"),
        ("colums", "file", "unknown option colums; expected one of path, "),
        ("columns", "file,size", "option columns: no column 'size'; expected some of file, offset, "),
        ("view", "frames", "option view: 'frames'; expected packets or files"),
        ("partitions", "-1", "option partitions: '-1'; expected a whole number above 0"),
        ("fromNs", "noon", "option fromNs: 'noon'; expected nanoseconds since 1970, a whole number"),
        ("types", "MSG", "option types: view packets has no column type"),
    ],
)
def test_malformed_options_are_errors(option: str, value: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        PcapSource({"path": "x", option: value}).options_and_view()


def test_a_view_without_a_row_for_each_packet_has_one_mode() -> None:
    with pytest.raises(OptionError, match="view files has no row for each packet; expected PERMISSIVE"):
        read_options("pcap", {"path": "x", "view": "files", "mode": "FAILFAST"}, PCAP_VIEWS)


def test_files_are_chosen_by_the_time_of_their_change(tmp_path: Path) -> None:
    for name, second in (("a", 1_000), ("b", 2_000), ("c", 3_000)):
        (tmp_path / f"{name}.pcap").write_bytes(pcap([]))
        os.utime(tmp_path / f"{name}.pcap", (second, second))

    def chosen(**options: str) -> list[str]:
        entries = read_options("pcap", {"path": str(tmp_path), **options}, PCAP_VIEWS).files()
        return [Path(entry.path).stem for entry in entries]

    assert chosen(modifiedAfter="1970-01-01T00:16:40") == ["b", "c"]
    assert chosen(modifiedAfter="1970-01-01T01:16:39+01:00", modifiedBefore="1970-01-01T00:50:00") == [
        "a",
        "b",
    ]


def test_missing_paths_are_no_error_where_they_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap([]))
    paths = json.dumps([str(tmp_path / "a.pcap"), str(tmp_path / "no.pcap"), str(tmp_path / "*.cap")])
    with pytest.raises(FileNotFoundError, match=r"no\.pcap: no such file or directory"):
        read_options("pcap", {"paths": paths}, PCAP_VIEWS).files()
    options = read_options("pcap", {"paths": paths, "ignoreMissingFiles": "true"}, PCAP_VIEWS)
    assert [entry.path for entry in options.files()] == [str(tmp_path / "a.pcap")]
    gone = replace(view_of(options), columns=("time_ns",))
    assert list(gone.read(FilePart(str(tmp_path / "gone.pcap")))) == []


def test_a_link_to_itself_and_a_nul_name_no_file(tmp_path: Path) -> None:
    loop = tmp_path / "loop.pcap"
    loop.symlink_to(loop)
    for path in (str(loop), f"{tmp_path}/a\0b.pcap"):
        with pytest.raises(FileNotFoundError, match="no such file or directory"):
            list_captures([path])


def test_globs_have_alternatives(tmp_path: Path) -> None:
    for name in ("a1.pcap", "b1.pcap", "c1.pcap", "x/b2.pcap", "y{1}.pcap", "{z.pcap"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")

    def names(pattern: str) -> list[str]:
        return [
            str(Path(entry.path).relative_to(tmp_path)) for entry in list_captures([f"{tmp_path}/{pattern}"])
        ]

    assert names("{a,b}*.pcap") == ["a1.pcap", "b1.pcap"]
    assert names("{a1,x/{b,c}2}.pcap") == ["a1.pcap", "x/b2.pcap"]
    assert names("y{1}.pcap") == ["y{1}.pcap"]
    assert names("[{]z.pcap") == ["{z.pcap"]
    with pytest.raises(FileNotFoundError, match="matches no file"):
        names("{d,e}.pcap")


def test_packets_have_the_numbers_of_their_file_in_every_part(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(PACKETS))
    parts = index_file(str(path), 500)
    assert len(parts) > 3
    view = view_of(read_options("pcap", {"path": str(path), "columns": "packet,time_ns"}, PCAP_VIEWS))
    rows = [row for part in parts for batch in view.read(part) for row in batch.to_pylist()]
    assert rows == [{"packet": at + 1, "time_ns": time_ns} for at, (time_ns, _) in enumerate(PACKETS)]
    late = replace(view, bounds=replace(view.bounds, first_ns=PACKETS[30][0]))
    assert next(late.read(parts[-1])).column("packet")[0].as_py() > 30


def test_times_are_rounded_down_to_microseconds_and_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(section() + interface(tsresol=9) + enhanced(1_999, GOOD) + enhanced(2**63, GOOD))
    times = [row["time"] for row in _rows(path, columns="time")]
    assert [time and time.microsecond for time in times] == [1, None]


def _schema(**columns: Any) -> StructType:
    return StructType([StructField(name, kind()) for name, kind in columns.items()])


def test_a_schema_chooses_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(PACKETS[:1]))
    reader = PcapSource({"path": str(path)}).reader(_schema(captured=IntegerType, time_ns=LongType))
    (part,) = reader.partitions()
    (batch,) = reader.read(part)
    assert batch.to_pylist() == [{"captured": 60, "time_ns": 0}]
    source = CbcbSource({"path": str(path)})
    with pytest.raises(
        OptionError, match="schema: no column 'data' in view frames; expected some of capture, "
    ):
        source.reader(_schema(data=StringType))
    with pytest.raises(OptionError, match="cbcb: schema: time_ns is string; expected bigint"):
        source.reader(_schema(time_ns=StringType))


def _following(path: Path, **options: str) -> GrowingCaptures:
    chosen = read_options("pcap", {"path": str(path), "columns": "file,packet", **options}, PCAP_VIEWS)
    return GrowingCaptures(chosen, replace(view_of(chosen), growing=True))


def _batches(following: GrowingCaptures) -> list[list[tuple[str, int]]]:
    """The rows of each batch until the stream has reached the end."""
    limit, start, batches = following.getDefaultReadLimit(), following.initialOffset(), []
    while (end := json.loads(json.dumps(following.latestOffset(start, limit)))) != start:
        rows = [
            (Path(row["file"]).stem, row["packet"])
            for group in following.partitions(start, end)
            for batch in following.read(group)
            for row in batch.to_pylist()
        ]
        batches.append(sorted(rows))
        start = end
    return batches


def test_batches_of_few_files(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.pcap").write_bytes(pcap(PACKETS[:2]))
    following = _following(tmp_path, maxFilesPerTrigger="2")
    assert following.getDefaultReadLimit() == ReadMaxFiles(2)
    assert [sorted({file for file, _ in batch}) for batch in _batches(following)] == [["a", "b"], ["c"]]
    assert len(following.latestOffset({}, ReadAllAvailable())) == 3


def test_batches_of_few_bytes_have_every_packet_once(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.pcap").write_bytes(pcap(PACKETS * 10))
    following = _following(tmp_path, maxBytesPerTrigger="8k")
    assert following.getDefaultReadLimit() == ReadMaxBytes(8192)
    batches = _batches(following)
    assert len(batches) > 5
    assert max(map(len, batches)) <= 2 * 8192 // 76 + 2
    expected = [(name, number) for name in "ab" for number in range(1, 401)]
    assert sorted(row for batch in batches for row in batch) == expected


def test_a_stream_of_what_is_available_now_ends_there(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(PACKETS[:5])[:-3])
    following = _following(tmp_path)
    following.prepareForTriggerAvailableNow()
    path.write_bytes(pcap(PACKETS))
    (tmp_path / "b.pcap").write_bytes(pcap(PACKETS))
    assert _batches(following) == [[("a", number) for number in range(1, 5)]]


def test_offsets_of_earlier_versions_give_packets_without_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(PACKETS[:2]))
    following = _following(tmp_path)
    start = following.latestOffset({})
    del start[str(path)]["packets"]
    path.write_bytes(pcap(PACKETS[:3]))
    (group,) = following.partitions(start, following.latestOffset(start))
    assert [row["packet"] for batch in following.read(group) for row in batch.to_pylist()] == [None]
