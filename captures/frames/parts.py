"""Parts of capture files: what a task reads on its own, and what it must know of the packets before.

The fragments of CBCB frames in a capture are put together as a router does, by the time of their capture.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from captures.pcap import LINKTYPE_ETHERNET
from captures.pcap.blocks import Block
from captures.pcap.opening import open_bytes
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
        before: packets of the file before the part; None: unknown.
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
    before: int | None = 0


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
