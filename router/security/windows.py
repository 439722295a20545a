"""Replay windows: which counters of each neighbour have come, in a file that a restart finds again.

As in RFC 6479, a window is the greatest counter that was accepted, and which of the `WINDOW` counters up to
it were. The file is mapped into memory: a process that is killed leaves what it had accepted.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path

#: Counters that are remembered of a stream: so far may frames of a stream overtake each other.
WINDOW = 1024
_MASK = (1 << WINDOW) - 1
_MAGIC = b"cbcbwin1"
#: Magic, and the floor.
_HEAD = struct.Struct("<8sQ")
#: Address of the sender, number of its stream, greatest counter, and bits: bit i is the counter greatest - i.
_ROW = struct.Struct(f"<6sHQ{WINDOW // 8}s")
_FIRST_ROWS = 16


class Windows:
    """The windows of all streams that one receiver takes.

    Args:
        path: of the file, which is made if there is none; None: the windows are in memory alone.
        floor: counters up to this one are replays, from every sender. A file that is there has its own.

    Raises:
        OSError: the file cannot be made or mapped.
        ValueError: the file has another form.
    """

    def __init__(self, path: Path | None, floor: int) -> None:
        self._path = path
        self._map = self._open(path, floor)
        magic, self._floor = _HEAD.unpack_from(self._map)
        if magic != _MAGIC:
            raise ValueError(f"{path}: no file of replay windows")
        #: (Address, stream) -> place of the row, greatest counter, bits.
        self._streams: dict[tuple[bytes, int], tuple[int, int, int]] = {}
        for place in range(_HEAD.size, len(self._map) - _ROW.size + 1, _ROW.size):
            address, stream, greatest, bits = _ROW.unpack_from(self._map, place)
            if bits.strip(b"\0"):
                self._streams[address, stream] = place, greatest, int.from_bytes(bits, "little")

    def accept(self, sender: bytes, stream: int, counter: int) -> bool:
        """Notes the counter of a frame that is authentic; returns False if it is a replay."""
        known = self._streams.get((sender, stream))
        place, greatest, bits = self._new_row() if known is None else known
        ahead = counter - greatest
        if ahead > 0:
            bits = (bits << ahead & _MASK if ahead < WINDOW else 0) | 1
            greatest = counter
        elif -ahead >= WINDOW or bits >> -ahead & 1:
            return False
        else:
            bits |= 1 << -ahead
        self._streams[sender, stream] = place, greatest, bits
        _ROW.pack_into(self._map, place, sender, stream, greatest, bits.to_bytes(WINDOW // 8, "little"))
        return True

    def close(self) -> None:
        self._map.close()

    def _new_row(self) -> tuple[int, int, int]:
        """A stream of which all counters up to the floor have come."""
        place = _HEAD.size + _ROW.size * len(self._streams)
        if place + _ROW.size > len(self._map):
            self._grow()
        return place, self._floor, _MASK

    def _grow(self) -> None:
        size = 2 * len(self._map)
        if self._path is None:
            larger = mmap.mmap(-1, size)
            larger[: len(self._map)] = self._map[:]
            self._map.close()
            self._map = larger
        else:
            os.truncate(self._path, size)
            self._map.resize(size)

    @staticmethod
    def _open(path: Path | None, floor: int) -> mmap.mmap:
        size = _HEAD.size + _FIRST_ROWS * _ROW.size
        if path is None:
            made = mmap.mmap(-1, size)
            _HEAD.pack_into(made, 0, _MAGIC, floor)
            return made
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            new = os.fstat(descriptor).st_size == 0
            if new:
                os.ftruncate(descriptor, size)
            opened = mmap.mmap(descriptor, 0)
        finally:
            os.close(descriptor)
        if new:
            _HEAD.pack_into(opened, 0, _MAGIC, floor)
        return opened
