"""Captures that are being written, and several of them as one capture in pcapng while they grow."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from captures.pcap import (
    END_OF_OPTIONS,
    ENHANCED_PACKET,
    INTERFACE_DESCRIPTION,
    LINKTYPE_ETHERNET,
    NAME,
    SECTION_HEADER,
    TIME_RESOLUTION,
    PcapError,
)
from captures.pcap.blocks import Block
from captures.pcap.reader import DEFAULT_BLOCK_BYTES, PcapReader, Record, records_of

#: Bytes of each of several files that are held at a time: a run has files for thousands of links.
_SHARE_BYTES = 1 << 18


class GrowingFile:
    """A capture that is being written; the file need not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def blocks(self, block_bytes: int = DEFAULT_BLOCK_BYTES) -> Iterator[Block]:
        """Yields the packets that were written since the last call, block after block.

        Raises:
            PcapError: the file is no capture, or is damaged.
        """
        # Most of a run's files have not grown since the last look.
        if not self._path.exists() or self._path.stat().st_size == self._position:
            return
        reader = PcapReader(self._path, start=self._position, growing=True)
        yield from reader.blocks(block_bytes)
        self._position = reader.position
        if reader.defect is not None:
            raise PcapError(f"{self._path}: {reader.defect}")


def followed(files: Mapping[str, Path], ended: Callable[[], bool]) -> Iterator[bytes]:
    """Yields the packets of growing captures as pcapng, some at a time, those of each look in order of time.

    Empty bytes are the end of a look: the caller decides when the next one begins.

    Args:
        files: the captures by the names of their interfaces.
        ended: whether the files have their last packet: the look that follows is the last.

    Raises:
        PcapError: a file is no capture of Ethernet, or is damaged.
    """
    # Version 1.0, the order of bytes, and a length that is not known.
    yield _block(SECTION_HEADER, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    for name in files:
        options = _option(NAME, name.encode()) + _option(TIME_RESOLUTION, b"\x09") + _option(END_OF_OPTIONS)
        yield _block(INTERFACE_DESCRIPTION, struct.pack("<HHI", LINKTYPE_ETHERNET, 0, 0) + options)
    growing = [GrowingFile(path) for path in files.values()]
    last = False
    while not last:
        last = ended()
        packets = [_numbered(interface, file) for interface, file in enumerate(growing)]
        for interface, (time_ns, captured, length, data) in heapq.merge(
            *packets, key=lambda each: each[1][0]
        ):
            stamp = (time_ns >> 32, time_ns & 0xFFFFFFFF)
            yield _block(ENHANCED_PACKET, struct.pack("<IIIII", interface, *stamp, captured, length) + data)
        yield b""


def _numbered(interface: int, file: GrowingFile) -> Iterator[tuple[int, Record]]:
    for block in file.blocks(_SHARE_BYTES):
        yield from ((interface, record) for record in records_of(block))


def _block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", 12 + len(body) + -len(body) % 4)
    return struct.pack("<I", kind) + size + body + bytes(-len(body) % 4) + size


def _option(code: int, value: bytes = b"") -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)
