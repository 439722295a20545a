"""The layout of the arrays by which one router's state is known to compiled code.

One row (`State`) refers to all others. Python code that fills the arrays and compiled code that reads them
share the definitions of this module.
"""

from __future__ import annotations

from enum import IntEnum
from platform import machine


class State(IntEnum):
    """Columns of the row of a router (int64): the address of an array, or a number."""

    # The socket and its batch.
    SOCKET = 0  # descriptor of the socket that messages come in by and leave by
    SLOTS = 1  # frames of a batch
    ROOM = 2  # bytes of the buffer of a frame
    HEADERS_IN = 3  # int64 [SLOTS, HEADER_WIDTH]: struct mmsghdr of frames received
    HEADERS_OUT = 4  # int64 [SLOTS, HEADER_WIDTH]: of frames to send
    PIECES_OUT = 5  # int64 [SLOTS, 2]: struct iovec of frames to send
    FRAMES = 6  # address of the first frame's buffer
    COUNT = 7  # frames received
    NEXT = 8  # the first frame that was not decided
    OUT = 9  # frames to send
    SENT = 10  # of them, sent
    HOLD = 11  # 1: frames are left to be sent by the caller
    # The router.
    NODE = 12
    ADDRESS = 13  # int64: the source address of the router, its six bytes in memory order
    MTU = 14
    # Epochs: rows of EPOCH_WIDTH numbers.
    EPOCHS = 15  # int64 [EPOCH_COUNT, EPOCH_WIDTH]
    EPOCH_COUNT = 16
    # The matcher.
    TABLE = 17  # row of `router.matching.compiled.matching`
    DENSE = 18  # int32 [DENSE_SIZE]: dense number of an entry of the routing table in the matcher, or 0
    DENSE_SIZE = 19
    OPEN = 20  # uint8 [dense numbers]: 0 between messages
    MARK = 21  # uint8 [dense numbers]: 0 between messages
    BODY_ROOM = 22  # bytes of the longest body that the matcher's memory holds
    # Messages by interface, as the part of the router counts them that asks for updates.
    COUNTED = 23  # int64 [COUNTED_SIZE] by interface; 0: nobody counts
    COUNTED_SIZE = 24
    COUNT_LIMIT = 25  # a count above it makes something due, once the time of the interface has come
    COUNT_DUE = 26  # double [COUNTED_SIZE] by interface: the seconds from which a count makes something due
    # What was done, for the recording.
    LOG = 27  # uint8; 0: no recording
    LOG_AT = 28  # bytes written
    NOW = 29  # the bits of a double: time of the batch, seconds
    # Counters since they were last collected.
    FRAMES_DONE = 30  # frames decided in compiled code, all of them messages
    BYTES_DONE = 31
    FORWARDED = 32
    UNWANTED = 33
    FRAMES_SENT = 34
    BYTES_SENT = 35
    # Waiting.
    EPOLL = 36  # descriptor of the epoll set
    EVENTS = 37  # struct epoll_event [EVENTS_SIZE], of EVENT_BYTES each
    READY = 38  # events that the last call has left to the caller
    STOPPED = 39  # 1: the batch has frames that were not decided, or not sent
    DEADLINE = 40  # monotonic ns; the caller has something to do then
    TIME = 41  # struct timespec
    # The clock of the router: monotonic ns at a moment, its seconds then (double), seconds a second (double).
    CLOCK_START = 43
    CLOCK_SECONDS = 44
    CLOCK_RATE = 45
    CLOCK_UNTIL = 46  # monotonic ns at which another line begins
    CLOCK_LINES = 47  # address of the number of lines of the clock, uint64; 0: there is one
    CLOCK_LINES_KNOWN = 48
    # The recording.
    LOG_ROOM = 49  # bytes that may be written
    LOG_UNTIL = 50  # a double, seconds of the clock: the recording then needs a reading of both clocks
    # How long frames have waited.
    LAG = 51  # ns, the longest since the caller last looked
    LAG_LOOK = 52  # monotonic ns of the next look
    CLOCK_STALE = 53  # 1: another line of the clock has begun
    # Turns: from the end of a wait to the next wait.
    WOKEN = 54  # monotonic ns at which the last wait has ended
    WOKEN_CPU = 55  # CPU time of the thread then, ns
    TURN = 56  # ns of the longest turn that ended in compiled code, since the caller has asked
    TURN_CPU = 57  # likewise, the greatest CPU time of one
    SIZE = 58


#: Bytes of struct epoll_event, which is packed on x86-64 alone, and offset of its data in them.
EVENT_BYTES, EVENT_DATA = (12, 4) if machine() == "x86_64" else (16, 8)
EVENTS_SIZE = 64
#: A deadline that never comes, monotonic ns.
NEVER = 1 << 62
#: Nanoseconds between two looks at how long a frame has waited, and the wait that the caller is to see at
#: once.
LAG_LOOK_NS, LAG_SHOWN_NS = 5_000_000, 5_000_000
#: Words of a struct mmsghdr (64 bytes), and the word that holds `msg_len` in its low half.
HEADER_WIDTH, HEADER_LENGTH_WORD = 8, 7
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
