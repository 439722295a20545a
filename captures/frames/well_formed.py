"""Well-formed frames, counted in compiled code, and one frame of each group as an example.

Importing this module imports numba.
"""

from __future__ import annotations

import secrets

import numpy as np
import numpy.typing as npt

from captures.frames.identity import CaptureIdentity
from captures.frames.loops import ANY_CAPTURE, HOST, LINK, count_well_formed
from captures.pcap.reader import LINKTYPE_ETHERNET, Block
from router.native.memory import address_of

_KINDS = {None: ANY_CAPTURE, "link": LINK, "host": HOST}
#: No node: no sender has this number.
_NOBODY = -3

Int64s = npt.NDArray[np.int64]


class WellFormedFrames:
    """Counts frames of one capture by type, both ends, direction and time bin, for at most `room` groups.

    Attributes:
        groups: how many there are.
        example_bytes: how long their examples are together.
    """

    def __init__(self, capture: CaptureIdentity, bin_ns: int, room: int) -> None:
        self.groups = 0
        self.example_bytes = 0
        u, v = (_NOBODY if end is None else end for end in (capture.u, capture.v))
        self._settings = (_KINDS[capture.kind], u, v, bin_ns)
        self._salts = (np.uint64(secrets.randbits(64) | 1), np.uint64(secrets.randbits(64) | 1))
        self._bits = (2 * room - 1).bit_length()
        self._slots = np.full(1 << self._bits, -1, np.int64)
        self._counts = np.empty((room, 5), np.int64)
        self._examples: list[bytes] = []
        self._times: list[int] = []

    def add(self, block: Block) -> Int64s:
        """Counts the well-formed frames of a block; returns the rows of the others."""
        if block.link_type is not None and np.any(block.link_type != LINKTYPE_ETHERNET):
            return np.arange(len(block.start))
        before, left = self.groups, np.empty(len(block.start), np.int64)
        raw = np.frombuffer(block.data, np.uint8)
        columns = (block.start, block.captured, block.length, block.time_ns)
        self.groups, count = count_well_formed(
            address_of(raw), *columns, *self._settings, self._salts, self._bits, self._slots, self._counts,
            before, left,
        )  # fmt: skip
        for row in self._counts[before : self.groups, 4].tolist():
            self._examples.append(block.packet(row)[0])
            self._times.append(int(block.time_ns[row]))
            self.example_bytes += len(self._examples[-1])
        return left[:count]

    @property
    def frames(self) -> Int64s:
        """How many frames there are of each group."""
        return self._counts[: self.groups, 2]

    @property
    def bytes(self) -> Int64s:
        """Their bytes on the wire."""
        return self._counts[: self.groups, 3]

    def examples(self) -> Block:
        """The first frame of each group, in the order of the groups."""
        captured = np.array([len(example) for example in self._examples], np.int64)
        start = np.cumsum(captured) - captured
        return Block(b"".join(self._examples), start, captured, captured, np.array(self._times, np.int64))
