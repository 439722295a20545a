"""Small files that are decoded together have the rows of files that are decoded alone."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from captures.datasource.options import DROPMALFORMED, Bounds
from captures.datasource.packet_view import PACKET_COLUMNS
from captures.datasource.views import FRAMES, PACKETS, TRAFFIC, View
from captures.frames import CaptureIdentity
from captures.frames.columns import COLUMNS, TRAFFIC_COLUMNS
from captures.frames.index import index_file
from captures.frames.parts import FilePart
from captures.pcap import blocks
from captures.pcap.blocks import Block
from router.predicates import Message
from router.wire.codec import fragment
from router.wire.frames import Frame, FrameType
from router.wire.header import ROUTER_DESTINATION, node_address
from tests.support.compiled_loops import loops
from tests.support.run_folder import START_NS, asked_run, pcap_bytes


def _rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def parts(tmp_path: Path) -> list[FilePart]:
    """Captures with and without packets, of two link types, one that ends inside a record, one in parts."""
    found = []
    for number, (name, records) in enumerate((asked_run().pcaps | {"fragments": _fragments()}).items()):
        data = pcap_bytes(records)
        if number == 1:
            data = data[:20] + (113).to_bytes(4, "little") + data[24:]
        path = tmp_path / f"{name}.pcap"
        path.write_bytes(data[:-3] if number == 2 else data)
        found.append(FilePart(str(path), size=len(data)))
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(pcap_bytes([]))
    in_parts = index_file(found[-1].path, 200)
    assert any(part.carry for part in in_parts)
    # A part of which the number of the first packet is not known.
    return [*found, FilePart(str(empty), size=24), replace(found[0], before=None), *in_parts]


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


_LATE = Bounds(first_ns=START_NS + 120_000_000)
_VIEWS = (
    View(PACKETS, tuple(PACKET_COLUMNS)),
    View(PACKETS, ("time_ns", "packet", "ip_src", "file")),
    View(PACKETS, ("length",), mode=DROPMALFORMED),
    View(PACKETS, ("offset", "file"), bounds=_LATE),
    View(FRAMES, tuple(COLUMNS)),
    View(FRAMES, ("to_node", "attributes"), bounds=_LATE),
    View(FRAMES, ("undecodable", "packet", "predicate"), mode=DROPMALFORMED),
    View(FRAMES, ("capture", "time_ns"), bounds=Bounds(types=frozenset({"MSG"}))),
)


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
    assert _rows(together) == _rows(alone)
    assert alone
    if packets == 50_000:
        assert len(together) == 1
    assert all(batch.schema == view.schema for batch in together)


@pytest.mark.filterwarnings("ignore:.*ends inside a record")
@pytest.mark.parametrize("bounds", [Bounds(), _LATE])
@pytest.mark.parametrize("packets", [50_000, 5])
def test_sums_are_those_of_each_file(
    parts: Sequence[FilePart], bounds: Bounds, packets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_MOST_PACKETS", packets)
    view = View(TRAFFIC, tuple(TRAFFIC_COLUMNS), bounds=bounds)
    view = replace(view, captures=_identities(part.path for part in parts))
    together = _sums(view.read_all(parts))
    assert together == _sums(chain.from_iterable(map(view.read, parts)))
    assert len(together) > 5


def _sums(batches: Any) -> dict[tuple[Any, ...], list[int]]:
    """The sums of the rows of view `traffic`, by the other columns."""
    sums: dict[tuple[Any, ...], list[int]] = {}
    for *key, frames, size, undecodable in (row.values() for row in _rows(batches)):
        held = sums.setdefault(tuple(key), [0, 0, 0])
        held[:] = held[0] + frames, held[1] + size, held[2] + undecodable
    return sums


def test_packets_without_a_byte_are_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_bytes([(1, b""), (2, b"")]))
    part = FilePart(str(path), size=56)
    for view in (View(PACKETS, ("captured", "undecodable")), View(FRAMES, ("captured", "undecodable"))):
        assert _rows(view.read_all([part])) == _rows(view.read(part))
        assert [row["captured"] for row in _rows(view.read_all([part]))] == [0, 0]


def test_the_buffers_of_readers_are_not_held() -> None:
    def add() -> weakref.ref[Any]:
        buffer = np.zeros(4096, np.uint8)
        one = np.zeros(1, np.int64)
        files.add(None, Block(memoryview(buffer)[:100], one, one + 100, one + 100, one, before=0))  # type: ignore[arg-type]
        return weakref.ref(buffer)

    files = blocks.SmallFiles()
    assert add()() is None
    taken = files.take()
    assert taken is not None and taken[1].block.length.tolist() == [100]
