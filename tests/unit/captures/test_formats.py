"""Variants and versions of capture formats: read, or reported; never taken silently for another."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pytest

from captures.datasource.packet_view import file_health
from captures.frames.index import index_file
from captures.frames.parts import FilePart
from captures.pcap import PcapError
from captures.pcap.listing import is_capture_name
from captures.pcap.reader import PcapReader
from captures.pcap.walk import NO_TIME
from tests.support.capture_files import enhanced, interface, pcap, section
from tests.support.compiled_loops import WAYS, loops

PACKETS = [(number * 10**9 + 5000, bytes([number % 256]) * 60) for number in range(300)]


def _kuznetzov(order: str) -> bytes:
    content = struct.pack(order + "IHHiIII", 0xA1B2CD34, 2, 4, 0, 0, 65_535, 1)
    for time_ns, data in PACKETS:
        seconds, ns = divmod(time_ns, 10**9)
        content += struct.pack(order + "IIII", seconds, ns // 1000, len(data), len(data) + 4)
        content += struct.pack(order + "IHBB", 2, 0x0800, 1, 0) + data
    return content


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("order", ["<", ">"])
def test_kuznetzovs_variant_is_read(tmp_path: Path, order: str, compiled: bool) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(_kuznetzov(order))
    with loops(compiled=compiled):
        records = list(PcapReader(path).records())
    assert [(record.time_ns, record.data, record.original_length) for record in records] == [
        (time_ns, data, len(data) + 4) for time_ns, data in PACKETS
    ]
    parts = index_file(str(path), 4000)
    found = [
        record.time_ns
        for part in parts
        for record in PcapReader(path, start=part.start, end=part.end).records()
    ]
    assert found == [time_ns for time_ns, _ in PACKETS]
    assert len(parts) > 3


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("nano", [False, True])
def test_a_fraction_of_more_than_two_seconds_is_no_time(tmp_path: Path, nano: bool, compiled: bool) -> None:
    path = tmp_path / "a.pcap"
    unit = 1 if nano else 1000
    fractions_ns = (999_999_000, 1_000_000_000, 1_999_999_000, 2_000_000_000, 2_000_001_000, 4_000_000_000)
    records = b"".join(struct.pack("<IIII", 7, at // unit, 1, 1) + b"x" for at in fractions_ns)
    path.write_bytes(pcap([], nano=nano) + records)
    with loops(compiled=compiled):
        times = [record.time_ns for record in PcapReader(path).records()]
    assert times == [7_999_999_000, 8 * 10**9, 8_999_999_000, 9 * 10**9, NO_TIME, NO_TIME]
    (row,) = file_health(FilePart(str(path)), ["packets", "untimed", "last_ns"]).to_pylist()
    assert row == {"packets": 6, "untimed": 2, "last_ns": 9 * 10**9}


#: Captured and original length of the records of a file -> how versions of pcap write them.
_LENGTHS = [(60, 60), (60, 1500), (60, 61)]


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("version", "swapped"),
    [
        *(((2, 0), True), ((2, 1), True), ((2, 2), True), ((543, 0), True)),
        *(((2, 3), True), ((2, 3), False), ((2, 4), False)),
    ],
)
def test_lengths_are_in_the_order_of_the_version(
    tmp_path: Path, order: str, version: tuple[int, int], swapped: bool, compiled: bool
) -> None:
    path = tmp_path / "a.pcap"
    content = struct.pack(order + "IHHiIII", 0xA1B2C3D4, *version, 0, 0, 100, 1)
    for captured, original in _LENGTHS:
        written = (original, captured) if swapped else (captured, original)
        content += struct.pack(order + "IIII", 1, 2, *written) + bytes(captured)
    path.write_bytes(content)
    reader = PcapReader(path)
    with loops(compiled=compiled):
        lengths = [(record.captured_length, record.original_length) for record in reader.records()]
    assert lengths == _LENGTHS
    assert reader.defect is None


def test_damage_of_swapped_lengths_names_the_captured_length(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(
        struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 1, 0, 0, 100, 1) + struct.pack("<IIII", 1, 2, 60, 300_000)
    )
    reader = PcapReader(path)
    assert list(reader.records()) == []
    assert reader.defect == "the record at byte 24 claims 300000 bytes"


@pytest.mark.parametrize("bit", [16, 25])
def test_reserved_bits_of_the_link_type_are_an_error(tmp_path: Path, bit: int) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(PACKETS[:1], link_type=1 | 1 << bit))
    with pytest.raises(PcapError, match="reserved bits"):
        list(PcapReader(path).records())


def test_the_length_of_a_frame_check_sequence_is_no_link_type(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(PACKETS[:1], link_type=1 | 0x44000000))
    assert len(list(PcapReader(path).records())) == 1


@pytest.mark.parametrize(("major", "minor"), [(1, 9), (2, 5), (3, 0), (543, 1)])
def test_unknown_versions_of_pcap_are_errors(tmp_path: Path, major: int, minor: int) -> None:
    path = tmp_path / "a.pcap"
    content = pcap(PACKETS[:1])
    path.write_bytes(content[:4] + struct.pack("<HH", major, minor) + content[8:])
    with pytest.raises(
        PcapError, match=rf"a\.pcap: pcap of version {major}\.{minor}; expected 2\.0 to 2\.4$"
    ):
        list(PcapReader(path).records())


def test_unknown_versions_of_pcapng_are_errors_or_defects(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    good = section() + interface() + enhanced(1, b"x")
    unknown = good[:12] + struct.pack("<HH", 2, 1) + good[16:]
    path.write_bytes(unknown)
    with pytest.raises(PcapError, match=r"a\.pcapng: pcapng of version 2\.1; expected 1\.0$"):
        list(PcapReader(path).records())
    path.write_bytes(good + unknown)
    reader = PcapReader(path)
    assert len(list(reader.records())) == 1
    assert reader.defect == f"the section at byte {len(good)} is pcapng of version 2.1; expected 1.0"


def test_zstd_is_read_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    codec = pa.Codec("zstd")
    content = pcap(PACKETS)
    # Two frames.
    frames = [codec.compress(part, asbytes=True) for part in (content[:5000], content[5000:])]
    path.write_bytes(b"".join(frames))
    assert [record.time_ns for record in PcapReader(path).records()] == [time_ns for time_ns, _ in PACKETS]
    assert len(index_file(str(path), 1000)) == 1
    assert is_capture_name("a.pcap.zst", None)
    (row,) = file_health(FilePart(str(path)), ["compressed", "packets"]).to_pylist()
    assert row == {"compressed": True, "packets": 300}


def test_zstd_that_ends_early_is_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap.zst"
    content = pcap([(time_ns, bytes(range(256)) * 40) for time_ns, _ in PACKETS])
    first = pa.Codec("zstd").compress(content[: len(content) // 2], asbytes=True)
    second = pa.Codec("zstd").compress(content[len(content) // 2 :], asbytes=True)
    path.write_bytes(first + second[: len(second) // 2])
    reader = PcapReader(path)
    assert 0 < len(list(reader.records())) < 300
    assert reader.defect is not None
    assert "the compressed data are damaged or end early" in reader.defect
