"""Reading all parts, or files together, equals reading each file; parts that bounds rule out."""

from __future__ import annotations

import gzip
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from captures.datasource.options import DROPMALFORMED
from captures.datasource.views import FRAMES, PACKETS, TRAFFIC, View
from captures.frames import CaptureIdentity
from captures.frames.columns import COLUMNS, PACKET_COLUMNS, TRAFFIC_COLUMNS
from captures.frames.parts import CapturedFragments, FilePart, balance, parts_of, split_files
from captures.pcap import blocks
from captures.pcap.blocks import Block
from captures.pcap.listing import FileEntry, list_captures
from captures.pcap.reader import PcapReader
from router.predicates import Message
from router.wire.codec import fragment
from router.wire.frames import Frame, FrameType, SenderRequest
from router.wire.header import ETHERTYPE, ROUTER_DESTINATION, node_address
from tests.support.capture_files import made_view, pcap, pcapng
from tests.support.compiled_loops import loops
from tests.support.run_folder import START_NS, asked_run
from tests.vectors.wire_vectors import WHOLE

VIEWS = [made_view(PACKETS, [*PACKET_COLUMNS]), made_view(FRAMES, [*COLUMNS])]


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
    """No cut invents a packet."""
    content = made(_packets())
    assert len(content) > 4000
    path = tmp_path / "a"
    path.write_bytes(content)
    uncut = list(PcapReader(path).records())
    carried = defects = 0
    for size in range(len(content) - 400, len(content) + 1):
        path.write_bytes(content[:size])
        parts = parts_of(str(path), 700)
        assert len(parts) > 3
        carried += any(part.carry for part in parts)
        whole = PcapReader(path)
        records = list(whole.records())
        assert records == uncut[: len(records)]
        assert (whole.defect is None) == (whole.position == size)
        readers = [PcapReader(path, start=part.start, end=part.end, context=part.context) for part in parts]
        assert [record for reader in readers for record in reader.records()] == records
        # Only the last part reports the cut.
        assert [reader.defect for reader in readers] == [None] * (len(parts) - 1) + [whole.defect]
        defects += whole.defect is not None
        if size % 64 == 0 or size == len(content):
            for view in VIEWS:
                assert _rows(view, parts) == _rows(view, [FilePart(str(path))])
    assert carried == 401
    assert 0 < defects < 401


def test_the_types_of_a_reader_are_those_of_the_column(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    ethernet = bytes.fromhex("030000000001") + node_address(0) + b"\x88\xb5"
    path.write_bytes(pcap([(at, ethernet + vector.payload) for at, vector in enumerate(WHOLE)]))
    view = made_view(FRAMES, ("type", "encoded"), types=frozenset({"MSG"}))
    families = [vector.frame.type in (FrameType.MSG, FrameType.XMSG) for vector in WHOLE]
    for parts in ([FilePart(str(path))], parts_of(str(path), 300)):
        rows = _rows(view, parts)
        assert [row["type"] for row in rows] == ["MSG"] * sum(families)
        assert {row["encoded"] for row in rows} == {True, False}


def test_a_file_is_walked_where_it_is_to_be_split(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(_packets()))
    entry = FileEntry(str(path), path.stat().st_size)
    assert split_files([entry], 10**6) == [FilePart(str(path), size=entry.size)]
    parts = split_files([entry], 700)
    assert parts == parts_of(str(path), 700)
    assert {number for part in parts for number in part.types or ()} == {1, 3}
    assert [part.first_ns for part in parts] == sorted(part.first_ns or 0 for part in parts)


def test_a_compressed_file_is_one_part(tmp_path: Path) -> None:
    plain, compressed = tmp_path / "a.pcap", tmp_path / "b.pcap.gz"
    plain.write_bytes(pcap(_packets()))
    compressed.write_bytes(gzip.compress(plain.read_bytes()))
    (part,) = split_files([FileEntry(str(compressed), compressed.stat().st_size)], 700)
    assert (part.start, part.end) == (None, None)
    # Filters leave it out by the times and types that a walk finds.
    (walked,) = parts_of(str(compressed), 700)
    parts = parts_of(str(plain), 700)
    assert len(parts) > 3
    assert (walked.first_ns, walked.last_ns) == (parts[0].first_ns, parts[-1].last_ns)
    assert set(walked.types or ()) == {number for each in parts for number in each.types or ()}
    for view in VIEWS:
        rows = [row | {"file": None, "capture": None} for row in _rows(view, [part])]
        expected = [row | {"file": None, "capture": None} for row in _rows(view, [FilePart(str(plain))])]
        assert rows == expected


@settings(max_examples=30)
@given(st.lists(st.sampled_from([15, 4_500, 15_000, 37_500, -15_000, -60_000]), min_size=60, max_size=60))
def test_a_clock_that_is_set_back_splits_nothing(steps_ms: list[int]) -> None:
    times = accumulate(steps_ms, initial=1_000_000_000_000)
    packets = [(at * 10**6, data) for at, (_, data) in zip(times, _packets(), strict=False)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.pcap"
        path.write_bytes(pcap(packets))
        parts = parts_of(str(path), 700)
        assert len(parts) > 3
        assert _rows(VIEWS[1], parts) == _rows(VIEWS[1], [FilePart(str(path))])


def test_a_frame_is_given_up_after_the_clock_was_set_back() -> None:
    later, earlier = (
        [
            ROUTER_DESTINATION + node_address(source) + ETHERTYPE.to_bytes(2, "big") + payload
            for payload in fragment(Frame(FrameType.MSG, source, 1, 1, 64, Message({"text": "x" * 2_000})))
        ]
        for source in (1, 2)
    )
    fragments = CapturedFragments()
    for at_s, frame in ((1_000, later[0]), (0, earlier[0]), (40, earlier[1])):
        assert fragments.add(frame, (0, len(frame), at_s * 10**9)) is None
    assert [place[2] // 10**9 for place in fragments.held()] == [40, 1_000]


def test_bounds_leave_out_parts_and_files(tmp_path: Path) -> None:
    path, packets = tmp_path / "a.pcap", _packets()
    path.write_bytes(pcap(packets))
    parts = parts_of(str(path), 700)

    def needed(**bounds: Any) -> list[FilePart]:
        chosen = made_view(FRAMES, COLUMNS, **bounds)
        return [part for part in parts if chosen.needs(part)]

    assert needed() == parts
    assert needed(types=frozenset({"SR"})) == [part for part in parts if 3 in (part.types or ())]
    assert needed(types=frozenset({"RA", "UR"})) == []
    early = needed(until_ns=packets[3][0] + 1)
    assert 0 < len(early) < len(parts)
    assert needed(from_ns=packets[-1][0] + 1) == []
    assert needed(links=frozenset({3})) == []


def test_rows_outside_the_bounds_are_left_out(tmp_path: Path) -> None:
    path, packets = tmp_path / "a.pcap", _packets()
    path.write_bytes(pcap(packets))
    first, last = packets[10][0], packets[20][0]
    view = made_view(FRAMES, [*COLUMNS], from_ns=first + 1, until_ns=last + 1)
    everything = _rows(VIEWS[1], [FilePart(str(path))])
    assert _rows(view, [FilePart(str(path))]) == everything[11:21]
    # Blocks that are passed over give their fragments to messages that end later.
    assert _rows(view, parts_of(str(path), 300)) == everything[11:21]


def test_a_colon_in_a_name_makes_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "capture-2024-01-01T12:30:00.pcap"
    path.write_bytes(pcap([(1, b"x")]))
    monkeypatch.chdir(tmp_path)
    (entry,) = list_captures([path.name])
    assert (entry.path, entry.size) == (str(path), path.stat().st_size)
    assert len(list(PcapReader(entry.path).records())) == 1


def test_groups_of_files_are_of_about_equal_size() -> None:
    assert balance([9, 1, 1, 1, 1, 1], 2) == [[0], [1, 2, 3, 4, 5]]
    assert balance([], 4) == []
    assert balance([7], 4) == [[0]]


def _listed(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def parts(tmp_path: Path) -> list[FilePart]:
    """Captures with and without packets, of two link types, one that ends inside a record, one in parts."""
    found = []
    for number, (name, records) in enumerate((asked_run().pcaps | {"fragments": _fragments()}).items()):
        data = pcap(records)
        if number == 1:
            data = data[:20] + (113).to_bytes(4, "little") + data[24:]
        path = tmp_path / f"{name}.pcap"
        path.write_bytes(data[:-3] if number == 2 else data)
        found.append(FilePart(str(path), size=len(data)))
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(pcap([]))
    in_parts = parts_of(found[-1].path, 200)
    assert any(part.carry for part in in_parts)
    return [*found, FilePart(str(empty), size=24), *in_parts]


def _fragments() -> list[tuple[int, bytes]]:
    """Fragments of two messages of one router in turn, and one frame with an unknown type."""
    messages = [Frame(FrameType.MSG, 1, seq, 1, 64, Message({"text": "x" * 400})) for seq in (1, 2)]
    payloads = [
        payload for both in zip(*(fragment(each, 150) for each in messages), strict=True) for payload in both
    ]
    payloads.append(b"\x01\xff" + payloads[0][2:])
    head = ROUTER_DESTINATION + node_address(1) + b"\x88\xb5"
    return [(START_NS + 119_999_997 + number, head + payload) for number, payload in enumerate(payloads)]


def _identities(names: Iterable[str]) -> dict[str, CaptureIdentity]:
    """A host link of router 1 and a link from 0 to 1, in turn."""
    host = CaptureIdentity("host-1", "host", node=1)
    link = CaptureIdentity("link-0-1", "link", link=0, u=0, v=1)
    return {name: (host, link)[number % 2] for number, name in enumerate(names)}


_LATE_NS = START_NS + 120_000_000
_VIEWS = (
    made_view(PACKETS, [*PACKET_COLUMNS]),
    made_view(PACKETS, ("time_ns", "packet", "ip_src", "file")),
    made_view(PACKETS, ("length",), mode=DROPMALFORMED),
    made_view(PACKETS, ("offset", "file"), from_ns=_LATE_NS),
    made_view(FRAMES, [*COLUMNS]),
    made_view(FRAMES, ("to_node", "attributes"), from_ns=_LATE_NS),
    made_view(FRAMES, ("undecodable", "packet", "predicate"), mode=DROPMALFORMED),
    made_view(FRAMES, ("capture", "time_ns"), types=frozenset({"MSG"})),
    made_view(TRAFFIC, [*TRAFFIC_COLUMNS]),
    made_view(TRAFFIC, [*TRAFFIC_COLUMNS], from_ns=_LATE_NS),
)


def _sums(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """The sums of the rows of view `traffic`, which are parts of sums, by the other columns."""
    sums = Counter[tuple[Any, ...]]()
    for *key, frames, size, undecodable in (row.values() for row in rows):
        sums += Counter({(*key, "frames"): frames, (*key, "bytes"): size, (*key, "bad"): undecodable})
    return sums


@pytest.mark.filterwarnings("ignore:.*ends inside a record")
@pytest.mark.parametrize("view", _VIEWS)
@pytest.mark.parametrize(("packets", "compiled"), [(50_000, False), (5, False), (50_000, True)])
def test_rows_are_those_of_each_file(
    parts: Sequence[FilePart], view: View, packets: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_MOST_PACKETS", packets)
    view = replace(view, captures=_identities(part.path for part in parts))
    with loops(compiled=compiled):
        together = list(view.read_all(parts))
        alone = list(chain.from_iterable(map(view.read, parts)))
    if view.name == TRAFFIC:
        assert _sums(_listed(together)) == _sums(_listed(alone))
    else:
        assert _listed(together) == _listed(alone)
    assert alone
    if packets == 50_000:
        assert len(together) == 1
    assert all(batch.schema == view.schema for batch in together)


def test_packets_without_a_byte_are_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([(1, b""), (2, b"")]))
    part = FilePart(str(path), size=56)
    for view in (
        made_view(PACKETS, ("captured", "undecodable")),
        made_view(FRAMES, ("captured", "undecodable")),
    ):
        assert _listed(view.read_all([part])) == _listed(view.read(part))
        assert [row["captured"] for row in _listed(view.read_all([part]))] == [0, 0]


def test_the_buffers_of_readers_are_not_held() -> None:
    buffers: list[weakref.ref[Any]] = []

    def read() -> Block:
        buffer = np.zeros(4096, np.uint8)
        one = np.zeros(1, np.int64)
        buffers.append(weakref.ref(buffer))
        return Block(memoryview(buffer)[:100], one, one + 100, one + 100, one, before=0)  # type: ignore[arg-type]

    def files() -> Iterator[tuple[None, Block]]:
        yield None, read()
        yield None, read()
        # The loop over the files may hold the last block.
        assert buffers[0]() is None

    ((_, taken),) = blocks.in_batches(files())
    assert taken.block.length.tolist() == [100, 100]
    assert buffers[1]() is None
