"""Parts of capture files: what a task reads on its own, and what it must know of the packets before.

Records of a capture carry no marks: their offsets are known only after a walk over all records from the
start of the file. `parts_of` walks once, some 1 GB a second, and notes for each part the state that its
reader needs: the blocks of the pcapng section that the part lies in, and the fragments of CBCB frames that
are incomplete at its start. Reading all parts therefore gives the rows that reading the whole file gives. A
part also has the least and greatest time and the CBCB frame types of its packets: queries can skip it.

The fragments of CBCB frames in a capture are put together as a router does, by the time of their capture.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from captures.pcap import LINKTYPE_ETHERNET, PcapError
from captures.pcap.blocks import Block
from captures.pcap.listing import FileEntry
from captures.pcap.opening import is_compressed, open_bytes
from captures.pcap.reader import PcapReader
from captures.pcap.walk import NO_TIME
from router.wire.header import (
    ETHERNET_HEADER_LENGTH,
    ETHERTYPE,
    HEADER_OFFSETS,
    DecodeError,
    Header,
    decode_header,
)
from router.wire.intake import Key, Reassembler, frame_key

_TYPE, _FRAGMENT_COUNT = HEADER_OFFSETS["type"], HEADER_OFFSETS["fragment_count"]

#: Approximate bytes of a file that one task reads.
DEFAULT_PART_BYTES = 128 * 1024 * 1024
_WALKS_AT_ONCE = 2
#: A packet that is read again: offset of its first byte in the file, bytes captured, time in ns.
Carried = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a file: the packets whose records begin in [start, end).

    Attributes:
        path: path or URI.
        start, end: offsets between records; `end` None: the end of the file.
        context: offsets of the pcapng blocks that describe the section and the interfaces of the part.
        carry: the packets before `start` that hold fragments of frames which are incomplete at `start`.
        size: approximate size in bytes.
        first_ns, last_ns: least and greatest time in the part, ns since 1970 UTC; None: unknown.
        types: the numbers of the CBCB frame types in the part; None: unknown.
        before: packets of the file before the part.
    """

    path: str
    start: int | None = None
    end: int | None = None
    context: tuple[int, ...] = ()
    carry: tuple[Carried, ...] = ()
    size: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    types: tuple[int, ...] | None = None
    before: int = 0


class CapturedFragments:
    """Collects the fragments of one capture, and where in it the fragments are whose frames are not whole."""

    def __init__(self) -> None:
        self._reassembler = Reassembler()
        self._places: dict[Key, dict[int, Carried]] = {}

    def add(self, frame: bytes, place: Carried) -> tuple[Header, bytes] | None:
        """Takes an Ethernet frame that carries a fragment; header and body if it makes a CBCB frame whole.

        Raises:
            DecodeError: as `Reassembler.add`.
        """
        source, payload = frame[6:12], frame[ETHERNET_HEADER_LENGTH:]
        header = decode_header(payload)
        if place[2] == NO_TIME:
            # Without a time there is no telling whether it belongs to what is held.
            return None
        now = place[2] / 1e9
        # At once and not when it is noticed: what is held then follows from the packets alone.
        self._reassembler.expire(now)
        key = frame_key(source, header)
        before = self._reassembler.held(key)
        if not before:
            self._places.pop(key, None)
        try:
            whole = self._reassembler.add_decoded(source, header, payload, now)
        except DecodeError:
            self._places.pop(key, None)
            raise
        if whole is not None:
            self._places.pop(key, None)
        elif header.fragment_index not in before:
            self._places.setdefault(key, {})[header.fragment_index] = place
        return whole

    def see(self, block: Block) -> tuple[int, ...]:
        """Adds the fragments of a block, whose frames are of no interest.

        Returns the numbers of the CBCB frame types in the block.
        """
        types, fragments = survey(block)
        for row in fragments.tolist():
            with suppress(DecodeError):
                self.add(*block.packet(row))
        return types

    def carry(self, path: str, carried: Sequence[Carried]) -> None:
        """Takes what another collector held (`held`), read again from the capture.

        Raises:
            OSError: it cannot be read.
        """
        for place in carried:
            frame = bytearray(place[1])
            with open_bytes(path, place[0]) as file:
                file.read_into(memoryview(frame))
            with suppress(DecodeError):
                self.add(bytes(frame), place)

    def held(self) -> tuple[Carried, ...]:
        """The fragments that are held, in the order of the file."""
        # Others may have been given up to make room, or after the timeout.
        self._places = {key: places for key, places in self._places.items() if self._reassembler.held(key)}
        return tuple(sorted(place for places in self._places.values() for place in places.values()))


def survey(block: Block) -> tuple[tuple[int, ...], npt.NDArray[np.int64]]:
    """The numbers of the CBCB frame types in a block, and the rows of its fragments."""
    raw = np.frombuffer(block.data, np.uint8)
    start, captured = block.start, block.captured
    ethernet = None if block.link_type is None else np.flatnonzero(block.link_type == LINKTYPE_ETHERNET)
    if ethernet is not None:
        start, captured = start[ethernet], captured[ethernet]
    rows = np.flatnonzero(captured >= ETHERNET_HEADER_LENGTH + _FRAGMENT_COUNT + 2)
    rows = rows[_u16(raw, start[rows] + 12) == ETHERTYPE]
    types = np.unique(raw[start[rows] + ETHERNET_HEADER_LENGTH + _TYPE])
    fragments = rows[_u16(raw, start[rows] + ETHERNET_HEADER_LENGTH + _FRAGMENT_COUNT) != 1]
    return tuple(types.tolist()), fragments if ethernet is None else ethernet[fragments]


def _u16(raw: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    high: npt.NDArray[np.int64] = raw[at].astype(np.int64)
    return high << 8 | raw[at + 1]


def parts_of(path: str, part_bytes: int = DEFAULT_PART_BYTES) -> list[FilePart]:
    """The parts of a file, each of about `part_bytes` bytes; at least one.

    A compressed file has one part.

    Raises:
        PcapError, OSError: as `PcapReader`.
    """
    # Reading a later part of a compressed file means decompressing all that precedes it.
    splits = not is_compressed(path)
    reader = PcapReader(path, link_type=None)
    fragments = CapturedFragments()
    parts: list[FilePart] = []
    part, packets = FilePart(path, types=()), 0
    rows = max(1, min(65_536, part_bytes // 64))
    for block in reader.blocks(min(max(1, part_bytes // 4), 4 * 1024 * 1024), rows):
        packets += len(block.start)
        size = reader.position - (part.start or 0)
        part = replace(_extended(part, block, fragments.see(block)), end=reader.position, size=size)
        if splits and size >= part_bytes:
            parts.append(part)
            held = fragments.held()
            part = FilePart(path, reader.position, None, reader.context, held, types=(), before=packets)
    if part.size or not parts:
        parts.append(part)
    # The reader of the last part reports a defect behind the last whole record.
    parts[-1] = replace(parts[-1], end=None)
    return parts


def _extended(part: FilePart, block: Block, types: Sequence[int]) -> FilePart:
    """The part with the times of a further block, and with the types of its CBCB frames."""
    times = [ns for ns in (part.first_ns, part.last_ns) if ns is not None]
    timed = block.time_ns[block.time_ns != NO_TIME]
    times += [int(timed.min()), int(timed.max())] if len(timed) else []
    known = tuple(sorted({*(part.types or ()), *types}))
    return replace(part, first_ns=min(times, default=None), last_ns=max(times, default=None), types=known)


def split_files(entries: Sequence[FileEntry], part_bytes: int, *, skip_bad: bool = False) -> list[FilePart]:
    """The files in parts of about `part_bytes` bytes.

    Compressed files, and files of up to one and a half times that size, stay whole. A file that is to be
    split is walked, two files at a time.

    Raises:
        PcapError, OSError: as `PcapReader`, of a file that is walked, unless `skip_bad`.
    """

    def split(entry: FileEntry) -> list[FilePart]:
        try:
            if 2 * entry.size <= 3 * part_bytes or is_compressed(entry.path):
                return [FilePart(entry.path, size=entry.size)]
            return parts_of(entry.path, part_bytes)
        except (PcapError, OSError):
            if skip_bad:
                return []
            raise

    with ThreadPoolExecutor(_WALKS_AT_ONCE) as pool:
        return [part for parts in pool.map(split, entries) for part in parts]


def group_parts(parts: Sequence[FilePart], groups: int) -> list[list[FilePart]]:
    """The parts in at most `groups` groups of about equal size; no group is empty."""
    return [[parts[i] for i in group] for group in balance([part.size for part in parts], groups)]


def balance(sizes: Sequence[int], groups: int) -> list[list[int]]:
    """Splits indices into at most `groups` non-empty groups of about equal total size, largest first."""
    loads = [0] * max(1, groups)
    members: list[list[int]] = [[] for _ in loads]
    for index in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        lightest = loads.index(min(loads))
        members[lightest].append(index)
        # Opening a file has a cost of its own: empty files are spread over the groups, too.
        loads[lightest] += sizes[index] + 1
    return [group for group in members if group]
