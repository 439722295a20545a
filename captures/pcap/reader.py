"""Reads capture files in blocks of bounded memory: pcap and pcapng, in both byte orders, gzip or not.

Times are whole nanoseconds since 1970 UTC, whatever the resolution of the file. A file that ends inside a
record is read up to that record, and the defect is reported; no part of a record is passed on as a packet.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import captures.pcap as pcap
from captures.pcap import LINKTYPE_ETHERNET, Interface, PcapError, PcapHeader, compiling
from captures.pcap.blocks import Block, Int64s
from captures.pcap.opening import ByteReader, open_bytes
from captures.pcap.walk import CONTROL, DAMAGE, WALK_PCAP, WALK_PCAPNG

DEFAULT_BLOCK_BYTES = 4 * 1024 * 1024
_BLOCK_ROWS = 65_536
#: A longer block of pcapng is damage.
_MOST_BLOCK_BYTES = 32 * 1024 * 1024
#: Interfaces of a section: as many as the 16-bit numbers of old packet blocks distinguish.
_MOST_INTERFACES = 65_536


class Record(NamedTuple):
    """One captured packet: time in ns, bytes captured, bytes on the wire, and the captured bytes."""

    time_ns: int
    captured_length: int
    original_length: int
    data: bytes


def records_of(block: Block) -> Iterator[Record]:
    """The packets of a block, one at a time."""
    columns = (column.tolist() for column in (block.time_ns, block.captured, block.length, block.start))
    for time_ns, captured, length, start in zip(*columns, strict=True):
        yield Record(time_ns, captured, length, bytes(block.data[start : start + captured]))


class _Section:
    """The description of the next packets: the file's header (pcap), or section and interfaces (pcapng).

    Attributes:
        header: of a pcap file; None: the file is pcapng.
        interfaces: of pcapng, in order of their numbers.
        most_snaplen: the greatest snapshot length of an interface.
    """

    def __init__(self, order: str, header: PcapHeader | None = None) -> None:
        self.order = order
        self.header = header
        self.interfaces: list[Interface] = []
        self.most_snaplen = 0
        self._table = np.empty((8, len(Interface._fields)), np.int64)
        self._filled = 0

    def add(self, each: Interface) -> None:
        self.interfaces.append(each)
        self.most_snaplen = max(self.most_snaplen, each.snaplen)

    def table(self) -> Int64s:
        """The interfaces as rows of an array.

        Each row is copied once, not at each call.
        """
        if len(self.interfaces) > len(self._table):
            wider = np.empty((2 * len(self.interfaces), self._table.shape[1]), np.int64)
            wider[: self._filled] = self._table[: self._filled]
            self._table = wider
        if self._filled < len(self.interfaces):
            self._table[self._filled : len(self.interfaces)] = self.interfaces[self._filled :]
            self._filled = len(self.interfaces)
        return self._table[: self._filled]


class PcapReader:
    """Reads one capture file, or a part of it, once.

    Args:
        path: path, or URI (`captures.pcap.opening`).
        link_type: the link type that the packets must have (None: any).
        before: packets of the file before `start`.
        start, end: limits of the part to read: the packets whose records begin in [start, end). Both lie
            between records. None: from the first record; to the end of the file.
        context: offsets of the blocks of the section in which `start` lies (`captures.frames.parts`).
        growing: whether the file is being written: then an unfinished record at its end is no defect.

    Attributes:
        defect: how the file ends inside a record; None: it does not. Known after `blocks` or `records`.
        position: offset behind the last whole record that was read.

    Raises:
        PcapError: from `blocks` and `records`: the file is neither pcap nor pcapng, or a packet has another
            link type.
        OSError: from `blocks` and `records`: the file cannot be read.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        link_type: int | None = LINKTYPE_ETHERNET,
        start: int | None = None,
        end: int | None = None,
        context: tuple[int, ...] = (),
        growing: bool = False,
        before: int = 0,
    ) -> None:
        self.path = path
        self.defect: str | None = None
        self.position = start or 0
        self._context = list(context)
        self._link_type = link_type
        self._end = end
        self._growing = growing
        self._before = before
        self._section = _Section("<")

    @property
    def context(self) -> tuple[int, ...]:
        """Offsets of the blocks of the section in which `position` lies."""
        return tuple(self._context)

    def records(self) -> Iterator[Record]:
        """The packets, one at a time."""
        for block in self.blocks():
            yield from records_of(block)

    def blocks(
        self, block_bytes: int = DEFAULT_BLOCK_BYTES, block_rows: int = _BLOCK_ROWS
    ) -> Iterator[Block]:
        """The packets in blocks of about `block_bytes` bytes of the file; no block is empty."""
        whole = self.position == 0
        with open_bytes(str(self.path)) as file:
            first = self._read_header(file)
            if first is None:
                return
            if whole:
                yield from self._walk(file, block_bytes, block_rows, first)
                return
        self._replay()
        with open_bytes(str(self.path), self.position) as file:
            yield from self._walk(file, block_bytes, block_rows)

    def _read_header(self, file: ByteReader) -> bytes | None:
        """Reads the file's header.

        Returns:
            The bytes that were read and belong to the first block; None: a growing file has no header yet.
        """
        header = bytearray(pcap.PCAP_HEADER_LENGTH)
        read = file.read_into(memoryview(header))
        first = bytes(header[:read])
        if self._growing and read < len(header) and not pcap.is_pcapng(first):
            return None
        if pcap.is_pcapng(first):
            # The first block is the section's header, which `_walk` or `_replay` reads.
            return first
        if not read and file.defect:
            raise PcapError(f"{self.path}: {file.defect}")
        found = pcap.read_pcap_header(str(self.path), first)
        self._section = _Section(found.order, found)
        self._require(found.link_type)
        self.position = max(self.position, len(header))
        return b""

    def _require(self, link_type: int) -> None:
        if self._link_type is not None and link_type != self._link_type:
            name = " (Ethernet)" if self._link_type == LINKTYPE_ETHERNET else ""
            raise PcapError(f"{self.path}: link type {link_type}; expected {self._link_type}{name}")

    def _replay(self) -> None:
        """Reads the section and interface blocks at the offsets of the context."""
        offsets, self._context = self._context, []
        for offset in offsets:
            with open_bytes(str(self.path), offset) as file:
                block = bytearray(12)
                file.read_into(memoryview(block))
                size = self._control_size(block)
                block += bytes(max(0, size - 12))
                file.read_into(memoryview(block)[12:])
                self._control(bytes(block), offset)

    def _walk(
        self, file: ByteReader, block_bytes: int, block_rows: int, first: bytes = b""
    ) -> Iterator[Block]:
        """The packets from `position` on.

        Args:
            first: the bytes at `position` that have been read from the file.
        """
        rest = memoryview(first)
        more = True
        while more and self.defect is None:
            size = block_bytes
            if self._end is not None:
                size = min(size, self._end - self.position - len(rest))
            buffer = np.empty(len(rest) + max(size, 0), np.uint8)
            view = memoryview(buffer)  # type: ignore[arg-type]
            view[: len(rest)] = rest
            read = file.read_into(view[len(rest) :])
            more = read > 0
            end, at = len(rest) + read, 0
            if not end:
                break
            while True:
                at, stopped, block = self._some(buffer, at, end, block_rows)
                if block is not None:
                    yield block
                if stopped == DAMAGE:
                    self.defect = self._damage(view, at)
                    return
                if stopped == CONTROL:
                    size = self._control_size(view[at : at + 12])
                    if at + size > end:
                        break
                    control = bytes(view[at : at + max(size, 0)])
                    if size < 0 or control[4:8] != control[-4:]:
                        self.defect = f"the block at byte {self.position} is damaged"
                        return
                    defect = pcap.section_defect(control)
                    if defect is not None and self.position == 0:
                        raise PcapError(f"{self.path}: {defect}")
                    if defect is not None:
                        self.defect = f"the section at byte {self.position} is {defect}"
                        return
                    if not self._control(control, self.position):
                        self.defect = (
                            f"the interface at byte {self.position} is one of more than {_MOST_INTERFACES:,} "
                            "in its section"
                        )
                        return
                    at += size
                    self.position += size
                elif block is None:
                    break
            rest = view[at:end]
        if self.defect is not None:
            return
        if file.defect:
            self.defect = f"{file.defect}, after byte {self.position} of the content"
        elif len(rest) and not self._growing:
            self.defect = f"the file ends inside a record, which starts at byte {self.position}"

    def _damage(self, view: memoryview, at: int) -> str:
        if self._section.header is None:
            return f"the block at byte {self.position} is damaged"
        order = "big" if self._section.order == ">" else "little"
        claimed = int.from_bytes(view[at + 8 : at + 12], order)  # type: ignore[arg-type]
        return f"the record at byte {self.position} claims {claimed} bytes"

    def _some(self, buffer: Any, at: int, end: int, rows: int) -> tuple[int, int, Block | None]:
        """Reads the whole records from `at` on, at most `rows`.

        Returns:
            The position behind them, the reason for the stop, and the block of their packets.
        """
        section = self._section
        # A record takes 16 bytes or more.
        rows = min(rows, (end - at) // 16 + 1)
        columns = [np.empty(rows, np.int64) for _ in range(4)]
        compiled = compiling.should_compile(end - at)
        data = buffer if compiled else memoryview(buffer)
        big = section.order == ">"
        header = section.header
        interface: Int64s | None = None
        if header is None:
            interface = np.empty(rows, np.int64)
            table: Any = section.table() if compiled else section.interfaces
            walk = WALK_PCAPNG.compiled if compiled else WALK_PCAPNG.plain
            most = pcap.most_captured(section.most_snaplen)
            count, after, stopped = walk(
                data, at, end, big, table, most, _MOST_BLOCK_BYTES, *columns, interface
            )
        else:
            walk = WALK_PCAP.compiled if compiled else WALK_PCAP.plain
            count, after, stopped = walk(data, at, end, big, header.unit_ns, header.most_captured, *columns)
        offset = self.position - at
        self.position += after - at
        if not count:
            return after, stopped, None
        start, captured, length, time_ns = (column[:count] for column in columns)
        link_type: Int64s | None = None
        if interface is not None:
            interface = interface[:count]
            link_type = section.table()[:, -1][interface]
            for number in np.unique(link_type).tolist():
                self._require(number)
        elif header is not None and header.link_type != LINKTYPE_ETHERNET:
            link_type = np.full(count, header.link_type, np.int64)
        before, self._before = self._before, self._before + count
        return after, stopped, Block(
            memoryview(buffer)[:end], start, captured, length, time_ns, offset, interface, link_type, before
        )  # fmt: skip

    def _control_size(self, head: bytes | bytearray | memoryview) -> int:
        """Total length of a section or interface block, from its first bytes; -1: it is malformed."""
        head, order = bytes(head), self._section.order
        if pcap.is_pcapng(head):
            found = pcap.section_order(head)
            if found is None:
                return -1
            order = found
        size = int.from_bytes(head[4:8], "big" if order == ">" else "little")
        least = 28 if pcap.is_pcapng(head) else 20
        return size if least <= size <= _MOST_BLOCK_BYTES and size % 4 == 0 else -1

    def _control(self, block: bytes, offset: int) -> bool:
        """Interprets a section or interface block at `offset`. Returns False for an interface too many."""
        if pcap.is_pcapng(block):
            order = pcap.section_order(block)
            assert order is not None
            self._section = _Section(order)
            self._context = [offset]
        else:
            if len(self._section.interfaces) == _MOST_INTERFACES:
                return False
            self._section.add(pcap.read_interface(block, self._section.order))
            self._context.append(offset)
        return True
