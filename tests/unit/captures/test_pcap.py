"""Reading pcap files: orders, units, block borders, damage."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from captures.pcap import PcapError
from captures.pcap.reader import PcapReader, Record, tail_defect

SMALL = [Record(1_700_000_000_123_456_000 + i * 1000, 20 + i, 30 + i, bytes(range(20 + i))) for i in range(9)]


def _file(path: Path, order: str = "<", nano: bool = True, link_type: int = 1, cut: int = 0) -> Path:
    magic, unit = (0xA1B23C4D, 1) if nano else (0xA1B2C3D4, 1000)
    content = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262_144, link_type)
    for record in SMALL:
        seconds, ns = divmod(record.time_ns, 10**9)
        lengths = (record.captured_length, record.original_length)
        content += struct.pack(order + "IIII", seconds, ns // unit, *lengths) + record.data
    path.write_bytes(content[: len(content) - cut])
    return path


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nano", [True, False])
def test_all_four_forms(tmp_path: Path, order: str, nano: bool) -> None:
    reader = PcapReader(_file(tmp_path / "a.pcap", order, nano))
    assert list(reader.records()) == SMALL
    assert reader.defect is None


@pytest.mark.parametrize("size", [1, 17, 40, 100])
def test_blocks_of_any_size_hold_the_same_frames(tmp_path: Path, size: int) -> None:
    blocks = list(PcapReader(_file(tmp_path / "a.pcap")).blocks(size))
    assert all(len(block.start) for block in blocks)
    times = [time for block in blocks for time in block.time_ns.tolist()]
    data = [
        block.data[start : start + captured]
        for block in blocks
        for start, captured in zip(block.start.tolist(), block.captured.tolist(), strict=True)
    ]
    assert times == [record.time_ns for record in SMALL]
    assert data == [record.data for record in SMALL]


@pytest.mark.parametrize("cut", [1, 28, 30, 43])
def test_cut_tail_is_reported_and_not_invented(tmp_path: Path, cut: int) -> None:
    path = _file(tmp_path / "a.pcap", cut=cut)
    reader = PcapReader(path)
    assert list(reader.records()) == SMALL[:-1]
    # 24 bytes of file header, 8 records of 16 + 20..27 bytes.
    assert reader.defect == "the file ends inside a record, which starts at byte 340"
    assert tail_defect(path) == reader.defect


def test_absurd_length_is_damage(tmp_path: Path) -> None:
    path = _file(tmp_path / "a.pcap")
    path.write_bytes(path.read_bytes() + struct.pack("<IIII", 1, 1, 300_000, 300_000) + bytes(300_000))
    reader = PcapReader(path)
    assert list(reader.records()) == SMALL
    assert reader.defect == "the record at byte 384 claims 300000 bytes"


def test_other_files_are_refused_by_name(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(b"")
    text = tmp_path / "text.pcap"
    text.write_bytes(b"this is not a capture file")
    wireless = _file(tmp_path / "wireless.pcap", link_type=105)
    for path, message in (
        (empty, "empty.pcap: 0 bytes; expected a pcap header"),
        (text, "text.pcap: starts with 74686973; expected the magic number"),
        (wireless, "wireless.pcap: link type 105; expected 1"),
    ):
        with pytest.raises(PcapError, match=message):
            list(PcapReader(path).records())
