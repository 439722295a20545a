"""Reading pcapng and compressed captures: sections, interfaces, resolutions, blocks of all kinds, damage."""

from __future__ import annotations

import gzip
import shutil
import struct
import subprocess
from fractions import Fraction
from itertools import chain
from pathlib import Path

import pytest

from captures.frames.index import index_file
from captures.pcap import PcapError
from captures.pcap.reader import PcapReader, Record
from captures.pcap.walk import NO_TIME
from tests.support.capture_files import block, enhanced, interface, old, pcap, pcapng, section, simple
from tests.support.compiled_loops import WAYS, loops

TIME_NS = 1_700_000_000_123_456_789
PACKETS = [(TIME_NS + 1_000_003 * number, bytes([number]) * (40 + number)) for number in range(20)]


def _records(path: Path, content: bytes | None = None) -> list[Record]:
    """The records, read by the compiled walk and by the plain one, which must agree."""
    if content is not None:
        path.write_bytes(content)
    readers, found = [], []
    for way in WAYS:
        readers.append(PcapReader(path, link_type=None))
        with loops(compiled=way):
            found.append(list(readers[-1].records()))
    plain, compiled = found
    assert plain == compiled
    assert readers[0].defect == readers[1].defect
    return plain


def _link_types(path: Path) -> list[list[int]]:
    """For each block that the reader gives, the link type of each record."""
    found = []
    for each in PcapReader(path, link_type=None).blocks():
        assert each.link_type is not None
        found.append(each.link_type.tolist())
    return found


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders(tmp_path: Path, order: str) -> None:
    records = _records(tmp_path / "a.pcapng", pcapng(PACKETS, order))
    assert [(record.time_ns, record.data) for record in records] == PACKETS


@pytest.mark.parametrize(
    "resolution", [0, 3, 6, 9, 12, 18, 27, 28, 127, 0x80, 0x80 | 10, 0x80 | 32, 0x80 | 33, 0x80 | 63]
)
@pytest.mark.parametrize("offset_s", [0, 1_699_999_000, -7])
def test_every_resolution_and_offset(tmp_path: Path, resolution: int, offset_s: int) -> None:
    unit = Fraction(1, 2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution)
    ticks = int((TIME_NS / Fraction(10**9) if offset_s <= 0 else 123) / unit) % 2**63
    content = section() + interface(tsresol=resolution, tsoffset=offset_s) + enhanced(ticks, b"x")
    (record,) = _records(tmp_path / "a.pcapng", content)
    assert record.time_ns == ticks * unit * 10**9 // 1 + offset_s * 10**9


def test_a_stamp_that_does_not_fit_has_no_time(tmp_path: Path) -> None:
    wide = section() + interface(tsresol=0)
    (record,) = _records(tmp_path / "a.pcapng", wide + enhanced(2**40, b"x"))
    assert record.time_ns == NO_TIME
    (record,) = _records(tmp_path / "b.pcapng", wide + enhanced(2**64 - 1, b"x"))
    assert record.time_ns == NO_TIME
    # A malformed option for the resolution counts as absent.
    finer = section() + interface(tsresol=0x80 | 64)
    (record,) = _records(tmp_path / "c.pcapng", finer + enhanced(2**62, b"x"))
    assert record.time_ns == NO_TIME


def test_sections_interfaces_and_blocks_of_all_kinds(tmp_path: Path) -> None:
    content = (
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
    records = _records(tmp_path / "a.pcapng", content)
    assert records == [
        Record(5_000, 4, 4, b"aaaa"),
        Record(6, 4, 100, b"bbbb"),
        Record(NO_TIME, 3, 9, b"ccc"),
        Record(7, 2, 2, b"dd"),
        Record(8_000_000, 5, 5, b"eeeee"),
    ]
    assert list(chain.from_iterable(_link_types(tmp_path / "a.pcapng"))) == [1, 113, 1, 113, 1]
    with pytest.raises(PcapError, match="link type 113; expected 1"):
        list(PcapReader(tmp_path / "a.pcapng").records())


@pytest.mark.parametrize(
    ("damaged", "defect"),
    [
        pytest.param(enhanced(1, b"x", number=1), "the block at byte {} is damaged", id="no such interface"),
        pytest.param(struct.pack("<III", 6, 13, 13), "the block at byte {} is damaged", id="odd length"),
        pytest.param(
            enhanced(1, b"x")[:-4] + bytes(4), "the block at byte {} is damaged", id="lengths differ"
        ),
        pytest.param(
            block(6, struct.pack("<IIIII", 0, 0, 0, 400, 400)),
            "the block at byte {} is damaged",
            id="packet beyond its block",
        ),
        pytest.param(struct.pack("<III", 1, 8, 8), "the block at byte {} is damaged", id="short interface"),
        pytest.param(
            section()[:-4] + b"\x99\0\0\0",
            "the block at byte {} is damaged",
            id="section's lengths differ",
        ),
        pytest.param(
            interface()[:-4] + bytes(4),
            "the block at byte {} is damaged",
            id="interface's lengths differ",
        ),
        pytest.param(section()[:8] + bytes(20), "the block at byte {} is damaged", id="section of no order"),
        pytest.param(
            enhanced(1, b"x")[:-1], "the file ends inside a record, which starts at byte {}", id="cut"
        ),
    ],
)
def test_damage_is_told_and_what_precedes_it_kept(tmp_path: Path, damaged: bytes, defect: str) -> None:
    path = tmp_path / "a.pcapng"
    good = section() + interface(tsresol=9) + enhanced(4, b"good")
    records = _records(path, good + damaged)
    assert [record.data for record in records] == [b"good"]
    reader = PcapReader(path)
    list(reader.records())
    assert reader.defect == defect.format(len(good))


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_long_block_without_packets_is_passed_over(tmp_path: Path, order: str) -> None:
    before = section(order) + interface(order, tsresol=9) + enhanced(1, b"before", order)
    long = block(10, bytes(33 * 2**20), order)
    after = b"".join(enhanced(2 + number, b"after", order) for number in range(40))
    path = tmp_path / "a.pcapng"
    whole = _records(path, before + long + after)
    assert [record.data for record in whole] == [b"before", *[b"after"] * 40]
    parts = index_file(str(path), 400)
    readers = [PcapReader(path, start=part.start, end=part.end, context=part.context) for part in parts]
    assert [record for reader in readers for record in reader.records()] == whole
    assert len(parts) > 3
    assert [reader.defect for reader in readers] == [None] * len(parts)
    path.write_bytes(gzip.compress(before + long + after, 1))
    assert _records(path) == whole

    def defect(content: bytes, growing: bool = False) -> str | None:
        path.write_bytes(content)
        reader = PcapReader(path, growing=growing)
        assert [record.data for record in reader.records()] == [b"before"]
        assert reader.position == len(before)
        return reader.defect

    ends = f"the file ends inside a record, which starts at byte {len(before)}"
    assert defect(before + long[:-1]) == ends
    assert defect(before + long[:20]) == ends
    assert defect(before + long[:-4] + bytes(4) + after) == f"the block at byte {len(before)} is damaged"
    # Of a file that grows, its end is not waited for: most likely it is damage.
    assert defect(before + long[:-1], True) == f"the block at byte {len(before)} claims {len(long)} bytes"
    path.write_bytes(before + long + after)
    assert list(PcapReader(path, growing=True).records()) == whole


def test_a_block_of_a_packet_is_not_that_long(tmp_path: Path) -> None:
    good = section() + interface() + enhanced(1, b"x")
    path = tmp_path / "a.pcapng"
    assert len(_records(path, good + enhanced(2, bytes(100))[:4] + struct.pack("<I", 2**26) + bytes(90))) == 1
    reader = PcapReader(path)
    list(reader.records())
    assert reader.defect == f"the block at byte {len(good)} is damaged"


def test_a_section_may_have_many_interfaces(tmp_path: Path) -> None:
    one = block(1, struct.pack("<HHI", 1, 0, 0))
    other = block(1, struct.pack("<HHI", 113, 0, 0))
    content = section() + one * 5000 + enhanced(1, b"a", number=4999) + other * 60_536
    path = tmp_path / "a.pcapng"
    assert len(_records(path, content + enhanced(2, b"b", number=65_535) + old(3, b"c", number=65_535))) == 3
    assert _link_types(path) == [[1], [113, 113]]
    records = _records(path, content + enhanced(2, b"b", number=0) + one + enhanced(3, b"c", number=0))
    assert [record.data for record in records] == [b"a", b"b"]
    reader = PcapReader(path)
    list(reader.records())
    at = len(content) + len(enhanced(2, b"b"))
    assert reader.defect == f"the interface at byte {at} is one of more than 65,536 in its section"


@pytest.mark.parametrize("made", [pcap, pcapng])
def test_no_cut_invents_a_packet(tmp_path: Path, made: object) -> None:
    content = made(PACKETS)  # type: ignore[operator]
    whole = _records(tmp_path / "a", content)
    path = tmp_path / "cut"
    for size in range(len(content) - 400, len(content)):
        path.write_bytes(content[:size])
        reader = PcapReader(path)
        records = list(reader.records())
        assert records == whole[: len(records)]
        assert (reader.defect is None) == (reader.position == size)


def test_compressed(tmp_path: Path) -> None:
    content = pcap(PACKETS)
    whole = _records(tmp_path / "a.pcap", content)
    # In two members, as `cat a.gz b.gz` makes them, and padded with zeros.
    path = tmp_path / "a.pcap.gz"
    path.write_bytes(gzip.compress(content[:500]) + gzip.compress(content[500:]) + bytes(9))
    assert _records(path) == whole
    path.write_bytes(gzip.compress(content)[:-40])
    reader = PcapReader(path)
    records = list(reader.records())
    assert records == whole[: len(records)]
    assert reader.defect is not None
    assert reader.defect.startswith("the compressed data are damaged or end early: Compressed file ended")
    # The checksum at its end is wrong.
    path.write_bytes(gzip.compress(content)[:-8] + bytes(8))
    reader = PcapReader(path)
    records = list(reader.records())
    assert records == whole[: len(records)]
    assert "the compressed data are damaged" in str(reader.defect)


@pytest.mark.skipif(not shutil.which("editcap"), reason="needs Wireshark's command-line tools")
def test_what_wireshark_writes(tmp_path: Path) -> None:
    source = tmp_path / "a.pcap"
    whole = _records(source, pcap(PACKETS))

    def run(*command: str | Path) -> Path:
        subprocess.run(command, check=True, capture_output=True)
        return Path(command[-1])

    for form in ("pcapng", "nsecpcap"):
        assert _records(run("editcap", "-F", form, source, tmp_path / form)) == whole
    micro = _records(run("editcap", "-F", "pcap", source, tmp_path / "micro"))
    assert [record.time_ns for record in micro] == [time_ns // 1000 * 1000 for time_ns, _ in PACKETS]
    cut = _records(run("editcap", "-s", "30", source, tmp_path / "cut"))
    assert [record.captured_length for record in cut] == [30] * len(whole)
    assert [record.original_length for record in cut] == [record.original_length for record in whole]
    # Two interfaces, the second with microseconds.
    merged = _records(run("mergecap", "-a", source, tmp_path / "micro", "-w", tmp_path / "merged.pcapng"))
    assert merged == whole + micro
    hexdump = tmp_path / "dump.txt"
    hexdump.write_text("0000  " + " ".join(f"{byte:02x}" for byte in PACKETS[3][1]) + "\n")
    (record,) = _records(run("text2pcap", hexdump, tmp_path / "text.pcap"))
    assert record.data == PACKETS[3][1]
