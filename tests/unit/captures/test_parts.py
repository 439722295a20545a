"""Parts of files: reading all parts equals reading the file; the index; the parts that filters rule out."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNull,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from captures.datasource.options import Bounds, read_options
from captures.datasource.packet_view import PACKET_COLUMNS
from captures.datasource.pushdown import bounds_of
from captures.datasource.streaming import GrowingCaptures
from captures.datasource.views import FRAMES, OF_FILE, PACKETS, PCAP_VIEWS, TRAFFIC, View
from captures.frames.columns import COLUMNS, TRAFFIC_COLUMNS
from captures.frames.index import check_capture, index_file, read_index, split_files, write_index
from captures.frames.parts import FilePart
from captures.pcap import PcapError
from captures.pcap.listing import FileEntry, list_captures
from captures.pcap.reader import PcapReader
from router.predicates import Message
from router.wire.codec import fragment
from router.wire.frames import Frame, FrameType, SenderRequest
from router.wire.header import node_address
from tests.support.capture_files import pcap, pcapng
from tests.vectors.wire_vectors import WHOLE

VIEWS = [View(PACKETS, tuple(PACKET_COLUMNS)), View(FRAMES, tuple(COLUMNS))]


def _packets() -> list[tuple[int, bytes]]:
    """Messages whole and in fragments, of two routers and interleaved; a request; damage. 45 s in all."""
    payloads: list[tuple[int, bytes]] = []
    for seq in range(12):
        message = Frame(FrameType.MSG, seq % 2, seq, 1, 64, Message({"n": seq, "text": "x" * 30 * seq}))
        payloads += [(seq % 2, payload) for payload in fragment(message, 150)]
    payloads.sort(key=lambda each: len(each[1]) % 7)
    payloads.append((0, fragment(Frame(FrameType.SR, 0, 9, 1, 64, SenderRequest(5)))[0]))
    payloads.append((1, b"\x01damage"))
    step_ns = 45_000_000_000 // len(payloads)
    return [
        (
            10**18 + number * step_ns,
            bytes.fromhex("030000000001") + node_address(node) + b"\x88\xb5" + payload,
        )
        for number, (node, payload) in enumerate(payloads)
    ]


def _rows(view: View, parts: Sequence[FilePart]) -> list[dict[str, object]]:
    return [row for part in parts for batch in view.read(part) for row in batch.to_pylist()]


def _two_sections(packets: Sequence[tuple[int, bytes]]) -> bytes:
    half = len(packets) // 2
    return pcapng(packets[:half]) + pcapng(packets[half:], ">")


@pytest.mark.parametrize("made", [pcap, _two_sections])
@pytest.mark.filterwarnings("ignore:.*the file ends inside a record")
def test_split_reads_equal_unsplit_reads_at_every_cut(
    tmp_path: Path, made: Callable[[Sequence[tuple[int, bytes]]], bytes]
) -> None:
    content = made(_packets())
    assert len(content) > 4000
    path = tmp_path / "a"
    carried = defects = 0
    for size in range(len(content) - 1024, len(content) + 1):
        path.write_bytes(content[:size])
        parts = index_file(str(path), 700)
        assert len(parts) > 3
        carried += any(part.carry for part in parts)
        whole = PcapReader(path)
        records = list(whole.records())
        readers = [PcapReader(path, start=part.start, end=part.end, context=part.context) for part in parts]
        assert [record for reader in readers for record in reader.records()] == records
        # Only the last part reports the cut.
        assert [reader.defect for reader in readers] == [None] * (len(parts) - 1) + [whole.defect]
        defects += whole.defect is not None
        if size % 64 == 0 or size == len(content):
            for view in VIEWS:
                assert _rows(view, parts) == _rows(view, [FilePart(str(path))])
    assert carried == 1025
    assert 0 < defects < 1025


def test_a_message_in_fragments_over_parts_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(_packets()))
    rows = _rows(VIEWS[1], index_file(str(path), 300))
    completing = [row for row in rows if row["fragment"] == "completing"]
    assert len(completing) > 3
    assert all(row["attributes"] and row["undecodable"] is None for row in completing)


def test_the_types_of_a_reader_are_those_of_the_column(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    ethernet = bytes.fromhex("030000000001") + node_address(0) + b"\x88\xb5"
    path.write_bytes(pcap([(at, ethernet + vector.payload) for at, vector in enumerate(WHOLE)]))
    view = View(FRAMES, ("type", "encoded"), bounds=Bounds(types=frozenset({"MSG"})))
    families = [vector.frame.type in (FrameType.MSG, FrameType.XMSG) for vector in WHOLE]
    for parts in ([FilePart(str(path))], index_file(str(path), 300)):
        rows = _rows(view, parts)
        assert [row["type"] for row in rows] == ["MSG"] * sum(families)
        assert {row["encoded"] for row in rows} == {True, False}


def test_an_index_is_used_until_its_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(_packets()))
    entry = FileEntry(str(path), path.stat().st_size)
    assert split_files([entry], 10**6) == [FilePart(str(path), size=entry.size)]
    write_index(path, 700)
    parts = split_files([entry], 10**6)
    assert parts == index_file(str(path), 700)
    assert {number for part in parts for number in part.types or ()} == {1, 3}
    assert [part.first_ns for part in parts] == sorted(part.first_ns or 0 for part in parts)
    # The index itself is no capture.
    assert [each.path for each in list_captures([str(tmp_path)])] == [str(path)]
    os.utime(path, ns=(1, 1))
    assert read_index(str(path)) is None
    index = write_index(path)
    index.write_text(json.dumps({"version": 1}))
    assert read_index(str(path)) is None


def test_a_compressed_file_is_one_part(tmp_path: Path) -> None:
    plain, compressed = tmp_path / "a.pcap", tmp_path / "b.pcap.gz"
    plain.write_bytes(pcap(_packets()))
    compressed.write_bytes(gzip.compress(plain.read_bytes()))
    write_index(compressed, 700)
    (part,) = split_files([FileEntry(str(compressed), compressed.stat().st_size)], 700)
    assert (part.start, part.end) == (None, None)
    # Filters leave it out by the times and types that it has.
    parts = index_file(str(plain), 700)
    assert len(parts) > 3
    assert (part.first_ns, part.last_ns) == (parts[0].first_ns, parts[-1].last_ns)
    assert set(part.types or ()) == {number for each in parts for number in each.types or ()}
    for view in VIEWS:
        rows = [row | {"file": None, "capture": None} for row in _rows(view, [part])]
        expected = [row | {"file": None, "capture": None} for row in _rows(view, [FilePart(str(plain))])]
        assert rows == expected


def test_checking_a_large_capture_leaves_its_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(_packets())[:-1])
    defect = check_capture(path)
    assert defect is not None
    assert read_index(str(path)) is None
    monkeypatch.setattr("captures.frames.index.DEFAULT_PART_BYTES", 1000)
    assert check_capture(path) == defect
    assert read_index(str(path)) == index_file(str(path), 1000)


@given(st.lists(st.sampled_from([15, 4_500, 15_000, 37_500, -15_000, -60_000]), min_size=60, max_size=60))
def test_a_clock_that_is_set_back_splits_nothing(steps_ms: list[int]) -> None:
    times = accumulate(steps_ms, initial=1_000_000_000_000)
    packets = [(at * 10**6, data) for at, (_, data) in zip(times, _packets(), strict=False)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.pcap"
        path.write_bytes(pcap(packets))
        everything = _rows(VIEWS[1], [FilePart(str(path))])
        parts = index_file(str(path), 700)
        assert len(parts) > 3
        assert _rows(VIEWS[1], parts) == everything
        # The counts of a time are those of its frames, fragments of others left out and looked at.
        middle = sorted(at for at, _ in packets)[len(packets) // 4 : -len(packets) // 4]
        bounds = Bounds(middle[0], middle[-1])
        for read in ([FilePart(str(path))], parts):
            counted: Counter[tuple[object, bool]] = Counter()
            for row in _rows(View(TRAFFIC, tuple(TRAFFIC_COLUMNS), bounds=bounds), read):
                assert isinstance(row["frames"], int)
                assert isinstance(row["frames_undecodable"], int)
                counted[row["type"], False] += row["frames"] - row["frames_undecodable"]
                counted[row["type"], True] += row["frames_undecodable"]
            wanted = Counter(
                (row["type"], row["undecodable"] is not None)
                for row in everything
                if middle[0] <= cast(int, row["time_ns"]) <= middle[-1]
            )
            assert +counted == wanted


def test_filters_leave_out_parts_and_files(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    packets = _packets()
    path.write_bytes(pcap(packets))
    parts = index_file(str(path), 700)

    def needed(*filters: Filter) -> list[FilePart]:
        view = View(FRAMES, tuple(COLUMNS), bounds=bounds_of(filters, OF_FILE))
        return [part for part in parts if view.needs(part)]

    assert needed() == parts
    assert needed(EqualTo(("type",), "SR")) == [part for part in parts if 3 in (part.types or ())]
    assert needed(In(("type",), ("RA", "UR"))) == []
    assert needed(EqualTo(("type",), "MSG"), In(("type",), ("RA", "SR"))) == []
    early = needed(LessThanOrEqual(("time_ns",), packets[3][0]))
    assert 0 < len(early) < len(parts)
    assert needed(GreaterThan(("time_ns",), packets[-1][0])) == []
    assert needed(EqualTo(("capture",), "a")) == parts
    assert needed(EqualTo(("capture",), "b")) == []
    assert needed(Not(StringStartsWith(("capture",), "a"))) == []
    assert needed(EqualTo(("link",), 3)) == parts  # Null, not false: Spark leaves it out.
    assert needed(Not(IsNull(("link",)))) == []


def test_rows_outside_the_bounds_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    packets = _packets()
    path.write_bytes(pcap(packets))
    first, last = packets[10][0], packets[20][0]
    filters = [GreaterThan(("time_ns",), first), LessThanOrEqual(("time_ns",), last)]
    view = View(FRAMES, tuple(COLUMNS), bounds=bounds_of(filters, OF_FILE))
    everything = _rows(VIEWS[1], [FilePart(str(path))])
    assert _rows(view, [FilePart(str(path))]) == everything[11:21]
    # Blocks that are passed over give their fragments to messages that end later.
    assert _rows(view, index_file(str(path), 300)) == everything[11:21]


def test_columns_are_those_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(_packets()))
    for name, columns in ((PACKETS, ("eth_type", "time_ns")), (FRAMES, ("type", "length", "undecodable"))):
        (batch,) = View(name, columns).read(FilePart(str(path)))
        (full,) = next(view for view in VIEWS if view.name == name).read(FilePart(str(path)))
        assert batch.schema.names == list(columns)
        assert pa.table(batch) == pa.table(full).select(columns)


def test_a_colon_in_a_name_makes_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "capture-2024-01-01T12:30:00.pcap"
    path.write_bytes(pcap([(1, b"x")]))
    monkeypatch.chdir(tmp_path)
    (entry,) = list_captures([path.name])
    assert (entry.path, entry.size) == (str(path), path.stat().st_size)
    assert len(list(PcapReader(entry.path).records())) == 1


def test_a_growing_file_that_is_damaged_is_read_up_to_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    packets = _packets()[:5]
    # The third record claims more than a snapshot length allows.
    content = pcap(packets[:2]) + b"\xff" * 16 + pcap(packets[2:])[24:]
    path.write_bytes(content)
    given = {"path": str(path)}
    following = GrowingCaptures(read_options("pcap", given, PCAP_VIEWS), replace(VIEWS[0], growing=True))
    with pytest.raises(PcapError, match="claims 4294967295 bytes"):
        following.latestOffset(following.initialOffset())
    skipping = read_options("pcap", given | {"ignoreCorruptFiles": "true"}, PCAP_VIEWS)
    following = GrowingCaptures(skipping, replace(VIEWS[0], growing=True))
    end = following.latestOffset({})
    (group,) = following.partitions({}, end)
    times = [row["time_ns"] for batch in following.read(group) for row in batch.to_pylist()]
    assert times == [packets[0][0], packets[1][0]]
    path.write_bytes(content * 2)
    assert following.latestOffset(end) == end
