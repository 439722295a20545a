"""Small files that are decoded together have the rows of files that are decoded alone."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from captures.datasource import small_files
from captures.datasource.bounds import Bounds
from captures.datasource.options import DROPMALFORMED
from captures.datasource.packet_view import PACKET_COLUMNS
from captures.datasource.views import PACKETS, View
from captures.frames.parts import FilePart
from captures.pcap.reader import Block
from tests.support.run_folder import START_NS, asked_run, pcap_bytes


def _rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def parts(tmp_path: Path) -> list[FilePart]:
    """Captures with and without packets, of two link types, and one that ends inside a record."""
    found = []
    for number, (name, records) in enumerate(asked_run().pcaps.items()):
        data = pcap_bytes(records)
        if number == 1:
            data = data[:20] + (113).to_bytes(4, "little") + data[24:]
        path = tmp_path / f"{name}.pcap"
        path.write_bytes(data[:-3] if number == 2 else data)
        found.append(FilePart(str(path), size=len(data)))
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(pcap_bytes([]))
    # A part of which the number of the first packet is not known.
    return [*found, FilePart(str(empty), size=24), replace(found[0], before=None)]


_VIEWS = (
    View(PACKETS, tuple(PACKET_COLUMNS)),
    View(PACKETS, ("time_ns", "number", "ip_src", "file")),
    View(PACKETS, ("length",), mode=DROPMALFORMED),
    View(PACKETS, ("offset", "file"), bounds=Bounds(first_ns=START_NS + 120_000_000)),
)


@pytest.mark.filterwarnings("ignore:.*ends inside a record")
@pytest.mark.parametrize("view", _VIEWS)
@pytest.mark.parametrize("packets", [50_000, 5])
def test_rows_are_those_of_each_file(
    parts: Sequence[FilePart], view: View, packets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_files, "_MOST_PACKETS", packets)
    together = list(view.read_all(parts))
    alone = list(chain.from_iterable(map(view.read, parts)))
    assert _rows(together) == _rows(alone)
    assert alone
    if packets == 50_000:
        assert len(together) == 1
    assert all(batch.schema == view.schema for batch in together)


def test_the_buffers_of_readers_are_not_held() -> None:
    def add() -> weakref.ref[Any]:
        buffer = np.zeros(4096, np.uint8)
        one = np.zeros(1, np.int64)
        files.add("a.pcap", Block(memoryview(buffer)[:100], one, one + 100, one + 100, one, before=0))  # type: ignore[arg-type]
        return weakref.ref(buffer)

    files = small_files.SmallFiles(("length",))
    assert add()() is None
    taken = files.take()
    assert taken is not None and taken[1].to_pylist() == [{"length": 100}]
