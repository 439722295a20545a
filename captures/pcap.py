"""Reading pcap files: both byte orders, micro- and nanosecond stamps, in blocks of bounded memory.

Times are whole nanoseconds since the epoch, UTC. A file that ends inside a record is read up to that record
and the defect is reported; no part of a record is ever passed on as a frame.

Format: draft-ietf-opsawg-pcap.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

LINKTYPE_ETHERNET = 1
_FILE_HEADER_LENGTH = 24
_RECORD_HEADER_LENGTH = 16
_BLOCK_BYTES = 4 * 1024 * 1024
#: A record longer than this is damage, not a frame (tcpdump's own limit on the snapshot length).
_MAX_CAPTURED_BYTES = 262_144
#: Magic number -> (byte order for struct, nanoseconds per unit of the stamp's fraction).
_MAGICS = {
    bytes.fromhex("a1b2c3d4"): (">", 1000),
    bytes.fromhex("d4c3b2a1"): ("<", 1000),
    bytes.fromhex("a1b23c4d"): (">", 1),
    bytes.fromhex("4d3cb2a1"): ("<", 1),
}


class PcapError(ValueError):
    """A file that is no pcap file of Ethernet frames; the message names it."""


class Record(NamedTuple):
    """One captured frame: time in ns, bytes captured, bytes on the wire, and the captured bytes."""

    time_ns: int
    captured_length: int
    original_length: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive records of a file.

    Attributes:
        data: the bytes of the file that hold them.
        start: offset of each frame's first byte in `data`.
        captured, length: bytes captured of each frame, and bytes that it had on the wire.
        time_ns: when it was captured.
    """

    data: bytes
    start: npt.NDArray[np.int64]
    captured: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    time_ns: npt.NDArray[np.int64]


class PcapReader:
    """Reads one pcap file, once.

    Attributes:
        defect: None, or how the file ends inside a record; known when `blocks` or `records` is exhausted.

    Raises:
        PcapError: when read: the file has no pcap header, or holds other than Ethernet frames.
        OSError: when read: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.defect: str | None = None

    def records(self) -> Iterator[Record]:
        """The records, one at a time."""
        for block in self.blocks():
            columns = (
                column.tolist() for column in (block.time_ns, block.captured, block.length, block.start)
            )
            for time_ns, captured, length, start in zip(*columns, strict=True):
                yield Record(time_ns, captured, length, block.data[start : start + captured])

    def blocks(self, block_bytes: int = _BLOCK_BYTES) -> Iterator[Block]:
        """The records in blocks of about `block_bytes` bytes of the file; no block is empty."""
        with self.path.open("rb") as file:
            order, unit_ns = self._read_file_header(file.read(_FILE_HEADER_LENGTH))
            unpack = struct.Struct(order + "IIII").unpack_from
            offset = _FILE_HEADER_LENGTH
            rest = b""
            while chunk := file.read(block_bytes):
                data = rest + chunk
                rows: list[tuple[int, int, int, int, int]] = []
                position, end = 0, len(data)
                while end - position >= _RECORD_HEADER_LENGTH:
                    seconds, fraction, captured, length = unpack(data, position)
                    if captured > _MAX_CAPTURED_BYTES:
                        self.defect = f"the record at byte {offset + position} claims {captured} bytes"
                        break
                    start = position + _RECORD_HEADER_LENGTH
                    if start + captured > end:
                        break
                    rows.append((seconds, fraction, captured, length, start))
                    position = start + captured
                if rows:
                    yield _block(data, rows, unit_ns)
                if self.defect:
                    return
                rest = data[position:]
                offset += position
            if rest:
                self.defect = f"the file ends inside a record, which starts at byte {offset}"

    def _read_file_header(self, header: bytes) -> tuple[str, int]:
        if len(header) < _FILE_HEADER_LENGTH:
            raise PcapError(
                f"{self.path}: {len(header)} bytes; expected a pcap header of {_FILE_HEADER_LENGTH} bytes"
            )
        found = _MAGICS.get(header[:4])
        if found is None:
            raise PcapError(f"{self.path}: starts with {header[:4].hex()}; expected the magic number of pcap")
        (network,) = struct.unpack(found[0] + "I", header[20:24])
        # The upper bits carry the length of a frame check sequence, not the link type.
        if network & 0xFFFF != LINKTYPE_ETHERNET:
            raise PcapError(
                f"{self.path}: link type {network & 0xFFFF}; expected {LINKTYPE_ETHERNET} (Ethernet)"
            )
        return found


def tail_defect(path: Path) -> str | None:
    """How a capture file ends inside a record; None if it is whole. Walks the record headers only.

    Raises:
        PcapError, OSError: as `PcapReader`.
    """
    reader = PcapReader(path)
    for _ in reader.blocks():
        pass
    return reader.defect


def _block(data: bytes, rows: list[tuple[int, int, int, int, int]], unit_ns: int) -> Block:
    seconds, fraction, captured, length, start = np.array(rows, dtype=np.int64).T
    return Block(data, start, captured, length, seconds * 1_000_000_000 + fraction * unit_ns)
