"""The arrays by which compiled code knows one router and a batch of frames.

One row of int64 numbers, the *state*, refers to all other arrays. Python code that fills the arrays and
compiled code that reads them take the columns from this module, which uses no Numba.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: Columns of the state: the address of an array, or a number.
(
    # The socket and its batch.
    SOCKET,  # descriptor of the socket that messages come in by and leave by
    SLOTS,  # frames of a batch
    ROOM,  # bytes of the buffer of a frame
    HEADERS_IN,  # int64 [SLOTS, HEADER_WIDTH]: struct mmsghdr of frames received
    HEADERS_OUT,  # int64 [SLOTS, HEADER_WIDTH]: of frames to send
    PIECES_OUT,  # int64 [SLOTS, 2]: struct iovec of frames to send
    FRAMES,  # address of the first frame's buffer
    COUNT,  # frames received
    NEXT,  # the first frame that was not decided, or that is to be delivered
    LOCAL,  # whether that frame is to be delivered: `IS_LOCAL_ALONE`, `IS_LOCAL`, or 0
    OUT,  # frames to send
    SENT,  # of them, sent
    HOLD,  # 1: frames are left to be sent by the caller
    TIME,  # struct timespec: seconds,
    TIME_NS,  # nanoseconds
    LAG,  # ns that a frame has waited, the longest since the caller last looked
    LAG_LOOK,  # monotonic ns of the next look
    # The wait.
    EPOLL,  # descriptor of the epoll that reports the socket and all else
    EVENTS,  # two struct epoll_event
    BEGAN,  # monotonic ns at which the last wait has ended
    END,  # monotonic ns at which to return
    METER,  # double [SLOT_NUMBERS]: the slot of the router's meter
    # The experiment clock: `ExperimentClock.segment`.
    CHANGES,  # uint64 [1]: another number than `CHANGES_SEEN` if the pieces have changed
    CHANGES_SEEN,
    PIECE_START,
    PIECE_SECOND,  # the bits of a double
    PIECE_RATE,  # the bits of a double
    PIECE_END,
    # The router.
    NODE,
    ADDRESS,  # the source address of the router, its six bytes in memory order
    MTU,
    EPOCHS,  # int64 [EPOCH_COUNT, EPOCH_WIDTH]
    EPOCH_COUNT,
    # The matcher.
    TABLE,  # row of `router.matching.compiled.matching`
    DENSE,  # int32 [DENSE_SIZE]: dense number of an entry of the routing table in the matcher, or 0
    DENSE_SIZE,
    OPEN,  # uint8 [dense numbers]: `CLOSED` between messages
    BODY_ROOM,  # bytes of the longest body that the matcher's memory holds; -1: all messages are the core's
    # Messages by interface, as the part of the router counts them that asks for updates.
    COUNTED,  # int64 [COUNTED_SIZE] by interface; 0: nobody counts
    COUNTED_SIZE,
    COUNT_LIMIT,  # a count above it makes something due, once the time of the interface has come
    COUNT_DUE,  # double [COUNTED_SIZE] by interface: the seconds from which a count makes something due
    # What was done, for the recording.
    LOG,  # uint8; 0: no recording
    LOG_AT,  # bytes written
    LOG_MOST,  # bytes written from which on there may be no room for a batch
    LOG_DUE,  # the bits of a double: the second from which on the caller has records to write
    EVENT_AT,  # offset of the last event
    ANSWER_AT,  # offset of the answer to it
    NOW,  # the bits of a double: time of the batch, seconds
    # Counters since they were last collected.
    FRAMES_DONE,  # frames decided in compiled code, all of them messages
    BYTES_DONE,
    FORWARDED,
    UNWANTED,
    FRAMES_SENT,
    BYTES_SENT,
    SIZE,
) = range(56)
#: Why `kernel.serve` ends: something else is ready, or the time has come; frames are left; clock, records or
#: meter are to be seen to.
OTHERS, FRAMES_LEFT, NOTES = range(3)
#: Values of `LOCAL`: applications alone get the message, or neighbours as well, to whom it is forwarded.
IS_LOCAL_ALONE, IS_LOCAL = 1, 2
#: Words of a struct mmsghdr (64 bytes): the address of the iovec[], their number, `msg_len` in the low half.
HEADER_WIDTH, _PIECES, _PIECE_COUNT, HEADER_LENGTH_WORD = 8, 2, 3, 7
#: Columns of an epoch: its number; the class of each source (uint16), and their number; rows of classes.
EPOCH, EPOCH_CLASS_OF, EPOCH_SOURCES, EPOCH_CLASSES, EPOCH_WIDTH = range(5)
#: Columns of a class: the node behind the parent interface (-1: none); the address of its first child's row,
#: and the address behind its last child's.
CLASS_SENDER, CLASS_FIRST, CLASS_END, CLASS_WIDTH = range(4)
#: Columns of a child: its interface; the entry of the routing table that decides about it (-1: none, messages
#: always go there); page and bit in destination addresses. A child has a row for each of its entries.
CHILD_INTERFACE, CHILD_ENTRY, CHILD_PAGE, CHILD_BIT, CHILD_WIDTH = range(5)
#: Bytes of a message's log beyond those of its frame: the heads of the records of event and actions, and the
#: interfaces of one page.
LOG_OVERHEAD = 256


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

    def length(self, number: int) -> int:
        """The length on the wire of a frame that came in, which may exceed `room`."""
        return int(self._lengths[number])

    def frame(self, number: int) -> bytes:
        """A frame that came in, cut at `room` bytes."""
        start = number * self.room
        return bytes(self._view[start : start + min(self.room, self.length(number))])

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
