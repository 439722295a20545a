"""Capture files as records: every form of pcap and pcapng, compressed or not; damage and refusals.

Each file is read by the compiled loops and by the plain ones, in blocks of several sizes, and in parts.
"""

from __future__ import annotations

import gzip
import shutil
import struct
import subprocess
from fractions import Fraction
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest

from captures.datasource.packet_view import file_health
from captures.frames.parts import FilePart, parts_of
from captures.pcap import PcapError
from captures.pcap.reader import PcapReader, Record
from captures.pcap.walk import NO_TIME
from tests.support.capture_files import block, enhanced, interface, old, pcap, pcapng, section, simple
from tests.support.compiled_loops import WAYS, loops

TIME_NS = 1_700_000_000_123_456_000
PACKETS = [(TIME_NS + 1_000_000 * number, bytes([number]) * (40 + number)) for number in range(20)]
RECORDS = [Record(time_ns, len(data), len(data), data) for time_ns, data in PACKETS]
_ORDERS = {"little-endian": "<", "big-endian": ">"}


def _zstd(*parts: bytes) -> bytes:
    return b"".join(pa.Codec("zstd").compress(part, asbytes=True) for part in parts)


_PCAP = pcap(PACKETS)
_ALL_KINDS = (
    section("<")
    + interface("<", tsresol=6, snaplen=3)
    + block(0x0BAD, b"private")
    + enhanced(5, b"aaaa")
    + interface("<", tsresol=9, link_type=113)
    + enhanced(6, b"bbbb", number=1, length=100)
    + block(5, bytes(8))
    + simple(b"ccc", length=9)
    + old(7, b"dd", number=1)
    + section(">")
    + interface(">", tsresol=3)
    + enhanced(8, b"eeeee", ">")
)
#: Form -> a file, and its records.
_FORMS: dict[str, tuple[bytes, list[Record]]] = {
    **{
        f"pcap, {name}, {'nanoseconds' if nano else 'microseconds'}": (pcap(PACKETS, order, nano), RECORDS)
        for name, order in _ORDERS.items()
        for nano in (True, False)
    },
    "pcap with the length of a frame check sequence": (pcap(PACKETS, link_type=1 | 0x44000000), RECORDS),
    **{f"pcapng, {name}": (pcapng(PACKETS, order), RECORDS) for name, order in _ORDERS.items()},
    "pcapng with sections, interfaces and blocks of all kinds": (
        _ALL_KINDS,
        [
            Record(5_000, 4, 4, b"aaaa"),
            Record(6, 4, 100, b"bbbb"),
            Record(NO_TIME, 3, 9, b"ccc"),
            Record(7, 2, 2, b"dd"),
            Record(8_000_000, 5, 5, b"eeeee"),
        ],
    ),
    # In two members, as `cat a.gz b.gz` makes them, and padded with zeros.
    "gzip": (gzip.compress(_PCAP[:500]) + gzip.compress(_PCAP[500:]) + bytes(9), RECORDS),
    "zstd in two frames": (_zstd(_PCAP[:500], _PCAP[500:]), RECORDS),
}


def _read(path: Path, content: bytes | None = None) -> tuple[list[Record], str | None]:
    """The records and the defect, read by the compiled walk and by the plain one, which must agree."""
    if content is not None:
        path.write_bytes(content)
    found = []
    for way in WAYS:
        reader = PcapReader(path, link_type=None)
        with loops(compiled=way):
            found.append((list(reader.records()), reader.defect))
    plain, compiled = found
    assert plain == compiled
    return plain


@pytest.mark.parametrize("form", _FORMS)
def test_every_form_is_read(tmp_path: Path, form: str) -> None:
    content, records = _FORMS[form]
    path = tmp_path / "a"
    assert _read(path, content) == (records, None)
    parts = parts_of(str(path), 300)
    readers = [
        PcapReader(path, link_type=None, start=part.start, end=part.end, context=part.context)
        for part in parts
    ]
    assert [record for reader in readers for record in reader.records()] == records
    assert (len(parts) > 2) == (len(content) > 1000 and form not in ("gzip", "zstd in two frames"))
    for size in (1, 17, 40, 100):
        blocks = list(PcapReader(path, link_type=None).blocks(size))
        assert all(len(each.start) for each in blocks)
        data = [
            each.data[start : start + captured]
            for each in blocks
            for start, captured in zip(each.start.tolist(), each.captured.tolist(), strict=True)
        ]
        assert data == [record.data for record in records]
        assert [time_ns for each in blocks for time_ns in each.time_ns.tolist()] == [
            record.time_ns for record in records
        ]


_BEFORE = section() + interface(tsresol=9) + enhanced(4, b"good")
_DAMAGED_BLOCK, _ENDS = (
    "the block at byte {} is damaged",
    "the file ends inside a record, which starts at byte {}",
)
#: Damage -> the file before it, the bytes of the damage, and the defect with its place.
_DAMAGE: dict[str, tuple[bytes, bytes, str]] = {
    "no such interface": (_BEFORE, enhanced(1, b"x", number=1), _DAMAGED_BLOCK),
    "odd length": (_BEFORE, struct.pack("<III", 6, 13, 13), _DAMAGED_BLOCK),
    "lengths differ": (_BEFORE, enhanced(1, b"x")[:-4] + bytes(4), _DAMAGED_BLOCK),
    "packet beyond its block": (_BEFORE, block(6, struct.pack("<IIIII", 0, 0, 0, 400, 400)), _DAMAGED_BLOCK),
    "packet of 64 MiB": (_BEFORE, struct.pack("<II", 6, 2**26) + bytes(90), _DAMAGED_BLOCK),
    "block of 33 MiB": (_BEFORE, struct.pack("<II", 10, 33 * 2**20) + bytes(90), _DAMAGED_BLOCK),
    "short interface": (_BEFORE, struct.pack("<III", 1, 8, 8), _DAMAGED_BLOCK),
    "section's lengths differ": (_BEFORE, section()[:-4] + b"\x99\0\0\0", _DAMAGED_BLOCK),
    "interface's lengths differ": (_BEFORE, interface()[:-4] + bytes(4), _DAMAGED_BLOCK),
    "section of no order": (_BEFORE, section()[:8] + bytes(20), _DAMAGED_BLOCK),
    "section of another version": (
        *(_BEFORE, section()[:12] + struct.pack("<HH", 2, 1) + section()[16:]),
        "the section at byte {} is pcapng of version 2.1; expected 1.0",
    ),
    "cut pcapng": (_BEFORE, enhanced(1, b"x")[:-1], _ENDS),
    **{f"pcap without its last {cut}": (_PCAP[:-75], _PCAP[-75:-cut], _ENDS) for cut in (1, 59, 60, 74)},
    "absurd length": (
        *(_PCAP, struct.pack("<IIII", 1, 1, 300_000, 300_000) + bytes(300_000)),
        "the record at byte {} claims 300000 bytes",
    ),
}


@pytest.mark.parametrize("damage", _DAMAGE)
def test_damage_is_reported_and_the_packets_before_it_are_kept(tmp_path: Path, damage: str) -> None:
    before, damaged, defect = _DAMAGE[damage]
    path = tmp_path / "a"
    expected, _ = _read(path, before)
    assert _read(path, before + damaged) == (expected, defect.format(len(before)))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(gzip.compress(_PCAP)[:-40], "or end early: Compressed file ended", id="gzip, cut"),
        pytest.param(gzip.compress(_PCAP)[:-8] + bytes(8), "", id="gzip, wrong checksum"),
    ],
)
def test_compressed_data_are_read_up_to_the_damage(tmp_path: Path, content: bytes, words: str) -> None:
    records, defect = _read(tmp_path / "a", content)
    assert records == RECORDS[: len(records)]
    assert f"the compressed data are damaged {words}" in str(defect)


def test_zstd_that_ends_early_is_read_up_to_there(tmp_path: Path) -> None:
    content = pcap([(TIME_NS, bytes(range(256)) * 40)] * 300)
    half = len(content) // 2
    records, defect = _read(tmp_path / "a", _zstd(content[:half]) + _zstd(content[half:])[:50])
    assert 0 < len(records) < 300
    assert "the compressed data are damaged or end early" in str(defect)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"a\.pcap: 0 bytes; expected a pcap header"),
        (b"this is not a capture file", r"a\.pcap: starts with 74686973; expected the magic number"),
        (pcap(PACKETS, link_type=105), r"a\.pcap: link type 105; expected 1"),
        (_ALL_KINDS, "link type 113; expected 1"),
        *((pcap(PACKETS, link_type=1 | 1 << bit), "reserved bits") for bit in (16, 25)),
        *(
            (
                _PCAP[:4] + struct.pack("<HH", *version) + _PCAP[8:],
                rf"a\.pcap: pcap of version {version[0]}\.{version[1]}; expected 2\.4$",
            )
            for version in ((2, 3), (2, 5), (3, 4), (543, 0))
        ),
        (
            section()[:12] + struct.pack("<HH", 2, 1) + section()[16:] + interface(),
            r"a\.pcap: pcapng of version 2\.1; expected 1\.0$",
        ),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(content)
    with pytest.raises(PcapError, match=message):
        list(PcapReader(path).records())


@pytest.mark.parametrize(
    "resolution", [0, 3, 6, 9, 12, 18, 27, 28, 127, 0x80, 0x80 | 10, 0x80 | 32, 0x80 | 33, 0x80 | 63]
)
@pytest.mark.parametrize("offset_s", [0, 1_699_999_000, -7])
def test_every_resolution_and_offset(tmp_path: Path, resolution: int, offset_s: int) -> None:
    unit = Fraction(1, 2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution)
    ticks = int((TIME_NS / Fraction(10**9) if offset_s <= 0 else 123) / unit) % 2**63
    content = section() + interface(tsresol=resolution, tsoffset=offset_s) + enhanced(ticks, b"x")
    ((record,), _) = _read(tmp_path / "a.pcapng", content)
    assert record.time_ns == ticks * unit * 10**9 // 1 + offset_s * 10**9


# A malformed option for the resolution, as the last one, counts as absent.
@pytest.mark.parametrize(("resolution", "ticks"), [(0, 2**40), (0, 2**64 - 1), (0x80 | 64, 2**62)])
def test_a_stamp_that_does_not_fit_has_no_time(tmp_path: Path, resolution: int, ticks: int) -> None:
    content = section() + interface(tsresol=resolution) + enhanced(ticks, b"x")
    ((record,), _) = _read(tmp_path / "a.pcapng", content)
    assert record.time_ns == NO_TIME


@pytest.mark.parametrize("nano", [False, True])
def test_a_fraction_of_more_than_two_seconds_is_no_time(tmp_path: Path, nano: bool) -> None:
    path = tmp_path / "a.pcap"
    unit = 1 if nano else 1000
    fractions_ns = (999_999_000, 1_000_000_000, 1_999_999_000, 2_000_000_000, 2_000_001_000, 4_000_000_000)
    stamps = b"".join(struct.pack("<IIII", 7, at // unit, 1, 1) + b"x" for at in fractions_ns)
    records, _ = _read(path, pcap([], nano=nano) + stamps)
    times = [7_999_999_000, 8 * 10**9, 8_999_999_000, 9 * 10**9, NO_TIME, NO_TIME]
    assert [record.time_ns for record in records] == times
    (row,) = file_health(FilePart(str(path)), ["packets", "untimed", "last_ns"]).to_pylist()
    assert row == {"packets": 6, "untimed": 2, "last_ns": 9 * 10**9}


def _link_types(path: Path, content: bytes) -> tuple[list[list[int]], str | None]:
    """The link type of each record of each block that the reader gives, and the defect."""
    path.write_bytes(content)
    reader, found = PcapReader(path, link_type=None), []
    for each in reader.blocks():
        assert each.link_type is not None
        found.append(each.link_type.tolist())
    return found, reader.defect


def test_each_interface_has_its_link_type(tmp_path: Path) -> None:
    found, _ = _link_types(tmp_path / "a.pcapng", _ALL_KINDS)
    assert list(chain.from_iterable(found)) == [1, 113, 1, 113, 1]


def test_a_section_may_have_many_interfaces(tmp_path: Path) -> None:
    one, other = (block(1, struct.pack("<HHI", link_type, 0, 0)) for link_type in (1, 113))
    content = section() + one * 5000 + enhanced(1, b"a", number=4999) + other * 60_536
    last = enhanced(2, b"b", number=65_535) + old(3, b"c", number=65_535)
    assert _link_types(tmp_path / "a.pcapng", content + last) == ([[1], [113, 113]], None)
    at = len(content) + len(last)
    defect = f"the interface at byte {at} is one of more than 65,536 in its section"
    more = last + one + enhanced(3, b"c", number=0)
    assert _link_types(tmp_path / "a.pcapng", content + more) == ([[1], [113, 113]], defect)


@pytest.mark.skipif(not shutil.which("editcap"), reason="needs Wireshark's command-line tools")
def test_what_wireshark_writes(tmp_path: Path) -> None:
    source = tmp_path / "a.pcap"
    source.write_bytes(pcap([(time_ns + 789, data) for time_ns, data in PACKETS]))
    whole, _ = _read(source)

    def written(*command: str | Path) -> list[Record]:
        subprocess.run(command, check=True, capture_output=True)
        return _read(Path(command[-1]))[0]

    for form in ("pcapng", "nsecpcap"):
        assert written("editcap", "-F", form, source, tmp_path / form) == whole
    micro = written("editcap", "-F", "pcap", source, tmp_path / "micro")
    assert [record.time_ns for record in micro] == [time_ns for time_ns, _ in PACKETS]
    cut = written("editcap", "-s", "30", source, tmp_path / "cut")
    assert [record.captured_length for record in cut] == [30] * len(whole)
    assert [record.original_length for record in cut] == [record.original_length for record in whole]
    # Two interfaces, the second with microseconds.
    merged = written("mergecap", "-a", source, tmp_path / "micro", "-w", tmp_path / "merged.pcapng")
    assert merged == whole + micro
    hexdump = tmp_path / "dump.txt"
    hexdump.write_text("0000  " + " ".join(f"{byte:02x}" for byte in PACKETS[3][1]) + "\n")
    (record,) = written("text2pcap", hexdump, tmp_path / "text.pcap")
    assert record.data == PACKETS[3][1]
