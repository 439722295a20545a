"""Capture files: their formats, recognised by the first bytes, and their headers, read and written.

pcap: draft-ietf-opsawg-pcap. pcapng: draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

LINKTYPE_ETHERNET = 1
PCAP_HEADER_LENGTH = 24
#: A longer packet is damage, unless the file has a greater snapshot length (libpcap's limit of that length).
_MOST_CAPTURED = 262_144
#: Greatest snapshot length that is accepted from a file, to bound the reader's memory.
_MOST_SNAPLEN = 16 * 1024 * 1024
#: Magic number -> (byte order for struct, nanoseconds per unit of the stamp's fraction).
_PCAP = {
    bytes.fromhex("a1b2c3d4"): (">", 1000),
    bytes.fromhex("d4c3b2a1"): ("<", 1000),
    bytes.fromhex("a1b23c4d"): (">", 1),
    bytes.fromhex("4d3cb2a1"): ("<", 1),
}
#: That of 1998 and since; the lengths of a record are swapped in some earlier versions.
_PCAP_VERSION = (2, 4)
_PCAPNG_MAJOR = 1
#: Reserved bits of the field with the link type; above them is the length of a frame check sequence.
_RESERVED = 0x03FF0000
GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
SECTION_HEADER = 0x0A0D0D0A
_SECTION_MAGIC = SECTION_HEADER.to_bytes(4, "big")
_ORDER_MAGIC = {bytes.fromhex("1a2b3c4d"): ">", bytes.fromhex("4d3c2b1a"): "<"}
INTERFACE_DESCRIPTION, OLD_PACKET, SIMPLE_PACKET, ENHANCED_PACKET = 1, 2, 3, 6
TIME_RESOLUTION, _TIME_OFFSET, NAME, END_OF_OPTIONS = 9, 14, 2, 0
_INT64_MAX = 2**63 - 1
_NS = 10**9
_RECORD = struct.Struct("<IIII")


class PcapError(ValueError):
    """A file is no capture; the message names the file."""


@dataclass(frozen=True, slots=True)
class PcapHeader:
    """The header of a pcap file."""

    order: str
    unit_ns: int
    link_type: int
    most_captured: int


class Interface(NamedTuple):
    """An interface of a pcapng section.

    A stamp of t ticks is `(t * mul // div) + offset_ns` with `shift` 0, else t / 2^shift seconds + offset_ns;
    stamps above `most_ticks` have no time in 64 bits of nanoseconds.
    """

    snaplen: int
    mul: int
    div: int
    shift: int
    offset_ns: int
    most_ticks: int
    link_type: int


def read_pcap_header(name: str, header: bytes) -> PcapHeader:
    """Reads `header`, the first bytes of the file `name`.

    Raises:
        PcapError: it is no pcap header, one of a version that is not known, or one with reserved bits.
    """
    found = _PCAP.get(header[:4])
    if found is None and len(header) >= 4:
        raise PcapError(
            f"{name}: starts with {header[:4].hex()}; expected the magic number of pcap, pcapng, gzip or zstd"
        )
    if found is None or len(header) < PCAP_HEADER_LENGTH:
        raise PcapError(f"{name}: {len(header)} bytes; expected a pcap header of {PCAP_HEADER_LENGTH} bytes")
    order, unit_ns = found
    version = struct.unpack(order + "HH", header[4:8])
    if version != _PCAP_VERSION:
        raise PcapError(f"{name}: pcap of version {version[0]}.{version[1]}; expected 2.4")
    snaplen, network = struct.unpack(order + "II", header[16:24])
    if network & _RESERVED:
        raise PcapError(
            f"{name}: link type 0x{network:08x} with reserved bits; expected 0 in 0x{_RESERVED:08x}"
        )
    return PcapHeader(order, unit_ns, network & 0xFFFF, most_captured(snaplen))


def most_captured(snaplen: int) -> int:
    """The greatest captured length of a packet in a file with a snapshot length of `snaplen`, in bytes."""
    return max(_MOST_CAPTURED, min(snaplen, _MOST_SNAPLEN))


def is_pcapng(header: bytes) -> bool:
    """Whether a file with these first bytes is pcapng."""
    return header[:4] == _SECTION_MAGIC


def section_order(block: bytes) -> str | None:
    """Byte order of the section that a Section Header Block begins; None: the block is none."""
    return _ORDER_MAGIC.get(block[8:12])


def section_defect(block: bytes) -> str | None:
    """Why a block begins a section of pcapng that cannot be read; None: it can be read, or is no section."""
    order = section_order(block) if is_pcapng(block) else None
    if order is not None:
        major, minor = struct.unpack_from(order + "HH", block, 12)
        if major != _PCAPNG_MAJOR:
            return f"pcapng of version {major}.{minor}; expected {_PCAPNG_MAJOR}.0"
    return None


def read_interface(block: bytes, order: str) -> Interface:
    """The interface that an Interface Description Block (header and trailer included) describes.

    An option that extends beyond the block ends the list of options. An option of a wrong length is ignored.
    """
    link_type, _, snaplen = struct.unpack_from(order + "HHI", block, 8)
    resolution, offset_s = 6, 0
    at, end = 16, len(block) - 4
    while at + 4 <= end:
        code, length = struct.unpack_from(order + "HH", block, at)
        value = block[at + 4 : at + 4 + length]
        at += 4 + (length + 3 & ~3)
        if code == END_OF_OPTIONS or at > end:
            break
        if code == TIME_RESOLUTION and length == 1:
            resolution = value[0]
        elif code == _TIME_OFFSET and length == 8:
            (offset_s,) = struct.unpack(order + "q", value)
    return Interface(snaplen, *_ticks(resolution, offset_s * _NS), link_type)


def _ticks(resolution: int, offset_ns: int) -> tuple[int, int, int, int, int]:
    """The fields `mul` to `most_ticks` of an interface."""
    power, binary = resolution & 0x7F, resolution & 0x80 != 0
    # No clock has steps of 2^-64 s: such a packet gets no time, rather than a wrong one.
    if not -_INT64_MAX <= offset_ns <= _INT64_MAX or (binary and power > 63):
        return 0, 1, 0, 0, -1
    most_ns = _INT64_MAX - max(offset_ns, 0)
    if binary and power:
        return 1, 1, power, offset_ns, min(_INT64_MAX, (most_ns << power) // _NS)
    # A stamp has less than 2^63 units, of 10^-28 s and finer less than a nanosecond.
    if power > 27 and not binary:
        return 0, 1, 0, offset_ns, _INT64_MAX
    mul, div = 10 ** max(0, 9 - power), 10 ** max(0, power - 9)
    return mul, div, 0, offset_ns, min(_INT64_MAX, most_ns * div // mul)


def file_header(link_type: int = LINKTYPE_ETHERNET) -> bytes:
    """The header of a little-endian pcap file of version 2.4, in nanoseconds, with packets of a link type.

    No frame reaches its snapshot length.
    """
    return struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, _MOST_CAPTURED, link_type)


FILE_HEADER = file_header()


def record_header(time_ns: int, captured: int, length: int | None = None) -> bytes:
    """The header of the record of a frame.

    Args:
        time_ns: time of capture, ns since 1970 UTC.
        captured: bytes of the frame that follow the header in the file.
        length: bytes of the frame on the wire; None: as captured.

    Raises:
        struct.error: the time is before 1970 or after 2106, or a length has more than 32 bits.
    """
    return _RECORD.pack(*divmod(time_ns, _NS), captured, captured if length is None else length)
