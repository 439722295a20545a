"""Keys of pairs of neighbours (derived by RFC 5869 from the network keys of a ring), and replay windows.

The file of replay windows is mapped into memory: a process that is killed leaves what it had accepted. Of a
file that a full disk or a kill has left cut short or empty, the rows that are left count, and `lost` says so.
Of each other stream, the first counter that comes then counts as the greatest of a full window: what came
before is not known, and nothing below is taken any more.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from router.privacy import KeyFile, KeyFileError, KeyRing, read_keys
from router.privacy.member import derived
from router.wire.authentication import WINDOW, advanced

_PURPOSE = b"hop 1"
#: Keys that are kept: as many as a router may have neighbours, and no more for senders that are none.
_KEPT = 8_192
#: Seconds between two looks at a key file.
_LOOK_S = 1.0


class PairKeys:
    """The keys that one router, or the controller, shares with each other.

    They come from a key file, which is read again, once a second at most, when it has changed. A rotation
    (`cbcb keys rotate`) replaces the file as a whole. While the file cannot be used, the keys stay as they
    are.

    Args:
        path: file of the network keys.
        own: the Ethernet source address of the router or the controller.
        now: seconds on a clock that never goes back.

    Attributes:
        sending: number of the network key under which frames are sent.

    Raises:
        KeyFileError: the file cannot be used.
    """

    def __init__(self, path: Path, own: bytes, now: Callable[[], float] = time.monotonic) -> None:
        self._file = KeyFile(path)
        self._own = own
        self._now = now
        self._look_at = now() + _LOOK_S
        self._take(read_keys(path))

    def _take(self, ring: KeyRing) -> None:
        self.sending = ring.sending
        self._secrets = {key.key_id: key.secret for key in ring.keys}
        self._derived = lru_cache(_KEPT)(self._derive)

    def refresh(self) -> None:
        """Reads the file again if it is time to look; called before each frame that is tagged or verified."""
        now = self._now()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_S
        with suppress(KeyFileError):
            renewed = self._file.renewed()
            if renewed is not None:
                self._take(renewed)

    def pair(self, key_id: int, other: bytes) -> bytes | None:
        """The key shared with the owner of another source address; None: no network key has the number.

        Both directions have the same key; tags cover the source address.
        """
        return self._derived(key_id, other) if key_id in self._secrets else None

    def _derive(self, key_id: int, other: bytes) -> bytes:
        low, high = sorted((self._own, other))
        return derived(self._secrets[key_id], _PURPOSE + low + high)


_MASK = (1 << WINDOW) - 1
_MAGIC = b"cbcbwin2"
#: Magic, the floor, and whether the file was made in the place of one that was lost.
_HEAD = struct.Struct("<8sQQ")
#: Address of the sender, number of its stream, greatest counter, and bits: bit i is the counter greatest - i.
_ROW = struct.Struct(f"<6sHQ{WINDOW // 8}s")
#: Bytes of a new file; it doubles when it is full.
_FIRST_BYTES = _HEAD.size + 16 * _ROW.size


class Windows:
    """The windows of all streams that one receiver takes.

    Args:
        path: of the file, which is made if there is none; None: the windows are in memory alone.
        floor: counters up to this one are replays, from every sender. A file that is there has its own.

    Attributes:
        floor: see there; of a file that was lost, 0.
        lost: whether what an earlier process had accepted is not known.

    Raises:
        OSError: the file cannot be made or mapped.
        ValueError: the file has another form.
    """

    def __init__(self, path: Path | None, floor: int) -> None:
        self._path = path
        self._map = _open(path, floor)
        magic, floor, lost = _HEAD.unpack_from(self._map)
        if magic != _MAGIC:
            raise ValueError(f"{path}: no file of replay windows")
        self.floor: int = floor
        self.lost = bool(lost)
        #: (Address, stream) -> place of the row, greatest counter, bits.
        self._streams: dict[tuple[bytes, int], tuple[int, int, int]] = {}
        self._end = _HEAD.size
        for place in range(_HEAD.size, len(self._map) - _ROW.size + 1, _ROW.size):
            address, stream, greatest, bits = _ROW.unpack_from(self._map, place)
            if bits.strip(b"\0"):
                self._streams[address, stream] = place, greatest, int.from_bytes(bits, "little")
                self._end = place + _ROW.size

    def has_room(self, sender: bytes, stream: int, most: int) -> bool:
        """Whether the sender has a window, or there are fewer than `most`."""
        return (sender, stream) in self._streams or len(self._streams) < most

    def accept(self, sender: bytes, stream: int, counter: int) -> bool:
        """Notes the counter of a frame that is authentic; returns False if it is a replay."""
        known = self._streams.get((sender, stream))
        place, greatest, bits = self._new_row(counter) if known is None else known
        window = advanced(greatest, bits, counter)
        if window is None:
            return False
        greatest, bits = window
        self._streams[sender, stream] = place, greatest, bits
        _ROW.pack_into(self._map, place, sender, stream, greatest, bits.to_bytes(WINDOW // 8, "little"))
        return True

    def close(self) -> None:
        self._map.close()

    def _new_row(self, counter: int) -> tuple[int, int, int]:
        """A stream of which all counters have come up to the floor, or to the first that comes."""
        place = self._end
        self._end += _ROW.size
        if self._end > len(self._map):
            self._grow()
        return place, max(self.floor, counter - 1) if self.lost else self.floor, _MASK

    def _grow(self) -> None:
        size = 2 * len(self._map)
        if self._path is not None:
            # A page that is written and has no room on the disk would end the process.
            with suppress(OSError), self._path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, size)
                self._map.resize(size)
                return
            # The file keeps what it has.
            self._path = None
        larger = mmap.mmap(-1, size)
        larger[: len(self._map)] = self._map[:]
        self._map.close()
        self._map = larger


def _open(path: Path | None, floor: int) -> mmap.mmap:
    if path is None:
        made = mmap.mmap(-1, _FIRST_BYTES)
        _HEAD.pack_into(made, 0, _MAGIC, floor, False)
        return made
    is_new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        head, size = os.pread(descriptor, _HEAD.size, 0), os.fstat(descriptor).st_size
        # Rows that were cut off come back as zeros.
        whole = _whole(size)
        os.posix_fallocate(descriptor, 0, whole)
        if is_new:
            os.pwrite(descriptor, _HEAD.pack(_MAGIC, floor, False), 0)
        elif size != whole or not head.strip(b"\0"):
            if head[: len(_MAGIC)].strip(b"\0") and not head.startswith(_MAGIC[: len(head)]):
                raise ValueError(f"{path}: no file of replay windows")
            os.pwrite(descriptor, _HEAD.pack(_MAGIC, 0, True), 0)
            # Of a row that was cut off, some numbers would count as new.
            if rest := max(0, size - _HEAD.size) % _ROW.size:
                os.pwrite(descriptor, bytes(rest), size - rest)
        return mmap.mmap(descriptor, 0)
    finally:
        os.close(descriptor)


def _whole(size: int) -> int:
    """The least size of a whole file that has so many bytes."""
    whole = _FIRST_BYTES
    while whole < size:
        whole *= 2
    return whole
