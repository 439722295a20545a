"""The buffers of a batch of frames, and the structures by which recvmmsg(2) and sendmmsg(2) know them.

Uses no compiled code.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from router.forwarding.layout import HEADER_LENGTH_WORD, HEADER_WIDTH

#: Words of struct mmsghdr: address of the iovec[], and their number.
_PIECES, _PIECE_COUNT = 2, 3


class FrameBuffers:
    """Memory for a batch of frames, in and out.

    Memory is used as batches and frames need it: an untouched page of a buffer takes none.

    Attributes:
        slots: frames of a batch.
        room: bytes of a frame's buffer.
        frames: uint8 [slots, room].
        headers_in, headers_out: int64 [slots, HEADER_WIDTH], struct mmsghdr each.
        address_in: of `headers_in`.
        pieces_out: int64 [slots, 2], address and length of each frame to send.
    """

    def __init__(self, slots: int, room: int) -> None:
        self.slots, self.room = slots, room
        self.frames: npt.NDArray[np.uint8] = np.zeros((slots, room), np.uint8)
        self._pieces_in = np.empty((slots, 2), np.int64)
        self._pieces_in[:, 0] = self.frames.ctypes.data + room * np.arange(slots)
        self._pieces_in[:, 1] = room
        self.pieces_out: npt.NDArray[np.int64] = np.zeros((slots, 2), np.int64)
        self.headers_in = _headers(self._pieces_in)
        self.headers_out = _headers(self.pieces_out)
        self.address_in = int(self.headers_in.ctypes.data)
        self._view = self.frames.reshape(-1).data
        self._lengths = self.headers_in.view(np.uint32)[:, 2 * HEADER_LENGTH_WORD]
        self._base = self.frames.ctypes.data

    def frames_in(self, count: int) -> list[bytes]:
        """The first `count` frames that came in, each cut at `room` bytes."""
        return [self.frame(number) for number in range(count)]

    def length(self, number: int) -> int:
        """The length on the wire of a frame that came in, which may exceed `room`."""
        return int(self._lengths[number])

    def frame(self, number: int) -> bytes:
        """A frame that came in, cut at `room` bytes."""
        start = number * self.room
        return bytes(self._view[start : start + min(self.room, self.length(number))])

    def put(self, number: int, frame: bytes) -> None:
        """Stores a frame as if it had come in, cut at `room` bytes."""
        kept = frame[: self.room]
        self.frames[number, : len(kept)] = np.frombuffer(kept, np.uint8)
        self._lengths[number] = len(frame)

    def outgoing(self, number: int) -> bytes:
        """A frame to send."""
        address, length = self.pieces_out[number].tolist()
        start = address - self._base
        return bytes(self._view[start : start + length])


def _headers(pieces: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    made = np.zeros((len(pieces), HEADER_WIDTH), np.int64)
    made[:, _PIECES] = pieces.ctypes.data + pieces.strides[0] * np.arange(len(pieces))
    made[:, _PIECE_COUNT] = 1
    return made
