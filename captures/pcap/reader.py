"""Reading capture files: pcap and pcapng of both byte orders and any resolution, gzip or not, in blocks of
bounded memory.

Times are whole nanoseconds since the epoch, UTC. A file that ends inside a record is read up to that record
and the defect is reported; no part of a record is ever passed on as a packet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from captures.pcap import formats
from captures.pcap.compiling import should_compile
from captures.pcap.formats import LINKTYPE_ETHERNET, Interface, PcapError
from captures.pcap.opening import ByteReader, open_bytes
from captures.pcap.walk import CONTROL, DAMAGE, LONG, NO_TIME, WALK_PCAP, WALK_PCAPNG

__all__ = ["LINKTYPE_ETHERNET", "NO_TIME", "Block", "PcapError", "PcapReader", "Record", "tail_defect"]

DEFAULT_BLOCK_BYTES = 4 * 1024 * 1024
_BLOCK_ROWS = 65_536
#: A block of pcapng longer than this, of a packet, section or interface, is damage; others are passed over.
_MOST_BLOCK_BYTES = 32 * 1024 * 1024
#: Of a section: as many as its old packet blocks can tell apart.
_MOST_INTERFACES = 65_536

#: Of the table of a section's interfaces; the last is the link type.
_COLUMNS = 7

Int64s = npt.NDArray[np.int64]


class Record(NamedTuple):
    """One captured packet: time in ns, bytes captured, bytes on the wire, and the captured bytes."""

    time_ns: int
    captured_length: int
    original_length: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive packets of a file.

    Attributes:
        data: the bytes of the file that hold them (of its content, if the file is compressed).
        start: offset of each packet's first byte in `data`.
        captured, length: bytes captured of each packet, and bytes that it had on the wire.
        time_ns: when it was captured; `NO_TIME` where the file does not say.
        offset: offset in the file of the first byte of `data`.
        interface: index of each packet's interface in its section; None: all 0 (pcap).
        link_type: its link type; None: all Ethernet.
    """

    data: bytes | memoryview
    start: Int64s
    captured: Int64s
    length: Int64s
    time_ns: Int64s
    offset: int = 0
    interface: Int64s | None = None
    link_type: Int64s | None = None

    def take(self, rows: Int64s) -> Block:
        """Some of the packets."""
        return Block(
            self.data,
            self.start[rows],
            self.captured[rows],
            self.length[rows],
            self.time_ns[rows],
            self.offset,
            None if self.interface is None else self.interface[rows],
            None if self.link_type is None else self.link_type[rows],
        )

    def packet(self, row: int) -> tuple[bytes, tuple[int, int, int]]:
        """A packet's bytes, and where it is: offset in the file, bytes captured, time."""
        at, captured = int(self.start[row]), int(self.captured[row])
        return bytes(self.data[at : at + captured]), (self.offset + at, captured, int(self.time_ns[row]))


class _Section:
    """How to read the packets that follow: the file's header (pcap), or section and interfaces (pcapng).

    Attributes:
        link_type: of all packets (pcap); None: by their interfaces.
        rows: what the walk must know of each interface, and its link type.
        most_snaplen: the greatest snapshot length of an interface.
    """

    def __init__(
        self, order: str, unit_ns: int = 0, most_captured: int = 0, link_type: int | None = None
    ) -> None:
        self.order = order
        self.unit_ns = unit_ns
        self.most_captured = most_captured
        self.link_type = link_type
        self.rows: list[tuple[int, ...]] = []
        self.most_snaplen = 0
        self._table = np.empty((8, _COLUMNS), np.int64)
        self._filled = 0

    def add(self, each: Interface) -> None:
        """Takes the next interface."""
        self.rows.append(
            (each.snaplen, each.mul, each.div, each.shift, each.offset_ns, each.most_ticks, each.link_type)
        )
        self.most_snaplen = max(self.most_snaplen, each.snaplen)

    def table(self) -> Int64s:
        """The rows as an array; each is put into it once, however many are still to come."""
        if len(self.rows) > len(self._table):
            wider = np.empty((2 * len(self.rows), _COLUMNS), np.int64)
            wider[: self._filled] = self._table[: self._filled]
            self._table = wider
        if self._filled < len(self.rows):
            self._table[self._filled : len(self.rows)] = self.rows[self._filled :]
            self._filled = len(self.rows)
        return self._table[: self._filled]


class PcapReader:
    """Reads one capture file, or a part of it, once.

    Args:
        path: path, or URI (`captures.pcap.opening`).
        link_type: the link type that the packets must have (None: any).
        start, end: the part: packets whose record begins at byte `start` or later and before `end`; both lie
            between records. None: from the first, to the end of the file.
        context: offsets of the blocks of the section in which `start` lies (`captures.frames.index`).
        growing: the file is being written: an unfinished record at its end is no defect, but yet to come.
        compiled: whether to walk by compiled code; by default, if there is much to read.

    Attributes:
        defect: None, or how the file ends inside a record; known when `blocks` or `records` is exhausted.
        position: offset behind the last whole record read.

    Raises:
        PcapError: when read: the file has no header of pcap or pcapng, or packets of another link type.
        OSError: when read: it cannot be read.
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
        compiled: bool | None = None,
    ) -> None:
        self.path = path
        self.defect: str | None = None
        self.position = start or 0
        self._context = list(context)
        self._link_type = link_type
        self._end = end
        self._growing = growing
        self._compiled = compiled
        self._section: _Section | None = None

    @property
    def context(self) -> tuple[int, ...]:
        """Offsets of the blocks of the section in which `position` lies."""
        return tuple(self._context)

    def records(self) -> Iterator[Record]:
        """The packets, one at a time."""
        for block in self.blocks():
            columns = (
                column.tolist() for column in (block.time_ns, block.captured, block.length, block.start)
            )
            for time_ns, captured, length, start in zip(*columns, strict=True):
                yield Record(time_ns, captured, length, bytes(block.data[start : start + captured]))

    def blocks(
        self, block_bytes: int = DEFAULT_BLOCK_BYTES, block_rows: int = _BLOCK_ROWS
    ) -> Iterator[Block]:
        """The packets in blocks of about `block_bytes` bytes of the file; no block is empty."""
        with open_bytes(str(self.path)) as file:
            if not self._read_header(file):
                return
        self._replay()
        with open_bytes(str(self.path), self.position) as file:
            yield from self._walk(file, block_bytes, block_rows)

    def _read_header(self, file: ByteReader) -> bool:
        """Reads the file's header; False if a growing file has none yet."""
        header = bytearray(formats.PCAP_HEADER_LENGTH)
        read = file.read_into(memoryview(header))
        first = bytes(header[:read])
        if self._growing and read < len(header) and not formats.is_pcapng(first):
            return False
        if formats.is_pcapng(first):
            # The first block is the section's header; `_walk` or the context reads it.
            self._section = _Section("<")
            return True
        if not read and file.defect:
            raise PcapError(f"{self.path}: {file.defect}")
        found = formats.read_pcap_header(str(self.path), first)
        self._section = _Section(found.order, found.unit_ns, found.most_captured, found.link_type)
        self._require(found.link_type)
        self.position = max(self.position, len(header))
        return True

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

    def _walk(self, file: ByteReader, block_bytes: int, block_rows: int) -> Iterator[Block]:
        rest = memoryview(b"")
        more = True
        while more and self.defect is None:
            wanted = block_bytes
            if self._end is not None:
                wanted = min(wanted, self._end - self.position - len(rest))
            buffer = np.empty(len(rest) + max(wanted, 0), np.uint8)
            view = memoryview(buffer)  # type: ignore[arg-type]
            view[: len(rest)] = rest
            read = file.read_into(view[len(rest) :])
            more = read > 0
            end, at = len(rest) + read, 0
            while True:
                at, stopped, block = self._some(buffer, at, end, block_rows)
                if block is not None:
                    yield block
                if stopped == DAMAGE:
                    self.defect = self._damage(view, at)
                    return
                if stopped == LONG:
                    at, more = self._pass_over(file, view[:end], at)
                    break
                if stopped == CONTROL:
                    size = self._control_size(view[at : at + 12])
                    if at + size > end:
                        break
                    control = bytes(view[at : at + max(size, 0)])
                    if size < 0 or control[4:8] != control[-4:]:
                        self.defect = f"the block at byte {self.position} is damaged"
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

    def _pass_over(self, file: ByteReader, view: memoryview, at: int) -> tuple[int, bool]:
        """Passes over the block at `at` of `view`, of which more is in the file.

        Returns:
            Where in `view` to read on, and whether there is more in the file.
        """
        section = self._section
        assert section is not None
        order = "big" if section.order == ">" else "little"
        size = int.from_bytes(view[at + 4 : at + 8], order)  # type: ignore[arg-type]
        left = size - (len(view) - at)
        end = bytes(view[-4:])
        passed = memoryview(bytearray(min(left, DEFAULT_BLOCK_BYTES)))
        while left:
            read = file.read_into(passed[: min(left, len(passed))])
            if not read:
                # One that is written now is never that long: to wait for its end is to wait for ever.
                if self._growing:
                    self.defect = f"the block at byte {self.position} claims {size} bytes"
                return at, False
            end = (end + bytes(passed[max(0, read - 4) : read]))[-4:]
            left -= read
        if int.from_bytes(end, order) != size:  # type: ignore[arg-type]
            self.defect = f"the block at byte {self.position} is damaged"
            return at, False
        self.position += size
        return len(view), True

    def _damage(self, view: memoryview, at: int) -> str:
        section = self._section
        assert section is not None
        if section.link_type is None:
            return f"the block at byte {self.position} is damaged"
        order = "big" if section.order == ">" else "little"
        claimed = int.from_bytes(view[at + 8 : at + 12], order)  # type: ignore[arg-type]
        return f"the record at byte {self.position} claims {claimed} bytes"

    def _some(self, buffer: Any, at: int, end: int, rows: int) -> tuple[int, int, Block | None]:
        """The whole records from `at` on, at most `rows`: where they end, why, and the block of them."""
        section = self._section
        assert section is not None
        # A record takes 16 bytes or more.
        rows = min(rows, (end - at) // 16 + 1)
        columns = [np.empty(rows, np.int64) for _ in range(4)]
        compiled = self._compiled
        if compiled is None:
            compiled = should_compile(end - at)
        data = buffer if compiled else memoryview(buffer)
        big = section.order == ">"
        interface: Int64s | None = None
        if section.link_type is None:
            interface = np.empty(rows, np.int64)
            table: Any = section.table() if compiled else section.rows
            walk = WALK_PCAPNG.compiled if compiled else WALK_PCAPNG.plain
            most = formats.most_captured(section.most_snaplen)
            count, after, stopped = walk(
                data, at, end, big, table, most, _MOST_BLOCK_BYTES, *columns, interface
            )
        else:
            walk = WALK_PCAP.compiled if compiled else WALK_PCAP.plain
            count, after, stopped = walk(data, at, end, big, section.unit_ns, section.most_captured, *columns)
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
        elif section.link_type != LINKTYPE_ETHERNET:
            link_type = np.full(count, section.link_type, np.int64)
        return after, stopped, Block(
            memoryview(buffer)[:end], start, captured, length, time_ns, offset, interface, link_type
        )  # fmt: skip

    def _control_size(self, head: bytes | bytearray | memoryview) -> int:
        """Total length of the section or interface block that begins so; -1: no block begins so."""
        section = self._section
        assert section is not None
        head = bytes(head)
        order = section.order
        if formats.is_pcapng(head):
            found = formats.section_order(head)
            if found is None:
                return -1
            order = found
        size = int.from_bytes(head[4:8], "big" if order == ">" else "little")
        least = 28 if formats.is_pcapng(head) else 20
        return size if least <= size <= _MOST_BLOCK_BYTES and size % 4 == 0 else -1

    def _control(self, block: bytes, offset: int) -> bool:
        """Takes a section or interface block, which begins at `offset`; False: there are too many."""
        section = self._section
        assert section is not None
        if formats.is_pcapng(block):
            order = formats.section_order(block)
            assert order is not None
            self._section = _Section(order)
            self._context = [offset]
        else:
            if len(section.rows) == _MOST_INTERFACES:
                return False
            section.add(formats.read_interface(block, section.order))
            self._context.append(offset)
        return True


def tail_defect(path: Path) -> str | None:
    """How a capture file ends inside a record; None if it is whole. Walks the record headers only.

    Raises:
        PcapError, OSError: as `PcapReader`.
    """
    reader = PcapReader(path)
    for _ in reader.blocks():
        pass
    return reader.defect
