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
    # What was done, for the recording.
    LOG = 26  # uint8; 0: no recording
    LOG_AT = 27  # bytes written
    NOW = 28  # the bits of a double: time of the batch, seconds
    # Counters since they were last collected.
    FRAMES_DONE = 29  # frames decided in compiled code, all of them messages
    BYTES_DONE = 30
    FORWARDED = 31
    UNWANTED = 32
    FRAMES_SENT = 33
    BYTES_SENT = 34
    # Waiting.
    EPOLL = 35  # descriptor of the epoll set
    EVENTS = 36  # struct epoll_event [EVENTS_SIZE], of EVENT_BYTES each
    READY = 37  # events that the last call has left to the caller
    STOPPED = 38  # 1: the batch has frames that were not decided, or not sent
    DEADLINE = 39  # monotonic ns; the caller has something to do then
    TIME = 40  # struct timespec
    # The clock of the router: monotonic ns at a moment, its seconds then (double), seconds a second (double).
    CLOCK_START = 42
    CLOCK_SECONDS = 43
    CLOCK_RATE = 44
    CLOCK_UNTIL = 45  # monotonic ns at which another line begins
    CLOCK_LINES = 46  # address of the number of lines of the clock, uint64; 0: there is one
    CLOCK_LINES_KNOWN = 47
    # The recording.
    LOG_ROOM = 48  # bytes that may be written
    LOG_UNTIL = 49  # a double, seconds of the clock: the recording then needs a reading of both clocks
    # How long frames have waited.
    LAG = 50  # ns, the longest since the caller last looked
    LAG_LOOK = 51  # monotonic ns of the next look
    CLOCK_STALE = 52  # 1: another line of the clock has begun
    # The local applications that have predicates: rows of APP_WIDTH numbers. Without rows the core delivers.
    APPS = 53  # int64 [APP_COUNT, APP_WIDTH]
    APP_COUNT = 54
    APP_TABLE = 55  # row of the matcher of their predicates
    APP_OPEN = 56  # uint8 [dense numbers of that matcher]: 1 for each application
    APP_MARK = 57  # uint8 [dense numbers]: 0 between messages
    CHOSEN = 58  # int64 [MOST_CHOSEN]: the rows of the applications that get the message
    # Deliveries that wait for the end of the batch: rows of ENTRY_WIDTH numbers, and the lines of their text.
    ENTRIES = 59  # int64 [ENTRIES_SIZE, ENTRY_WIDTH]
    ENTRY_COUNT = 60
    LINES = 61  # uint8 [LINES_SIZE]
    LINES_SIZE = 62
    LINES_AT = 63  # bytes of it in use
    LINE_PIECES = 64  # int64 [ENTRIES_SIZE, 2]: struct iovec
    TEXTS = 65  # uint8: `TEXT`
    # The records of deliveries that were made.
    RECORDS = 66  # uint8 [RECORDS_SIZE]
    RECORDS_AT = 67  # bytes of it in use
    RECORDS_DUE = 68  # monotonic ns at which the caller is to take them
    RECORDS_DELAY = 69  # ns from the first of them to that time
    RECORD_ROOM = 70  # bytes of the longest record
    DELIVERED = 71  # messages delivered, since the counters were last collected
    # Requests of applications to send a message.
    REQUESTS = 72  # uint8 [REQUESTS_SIZE]: what was read
    REQUESTS_APP = 73  # row of the application whose requests are left to the caller
    REQUESTS_AT = 74  # place of the first request that is left to the caller
    REQUESTS_END = 75  # place behind the last; 0: none is left
    REQUEST_TEXTS = 76  # uint8: `json_request.REQUEST`
    OWN_CLASS = 77  # row of the class of the router's own tree in the current epoch; 0: the core sends
    OWN_FRAME = 78  # uint8: Ethernet header and header of an own message of the current epoch
    ACCEPTED = 79  # int64 [1]: messages accepted
    FIRST_SEQ = 80  # the sequence number before the first, 64 bits
    MESSAGES_SENT = 81  # since the counters were last collected
    UNMATCHED = 82
    # The attributes of the message whose line was written last, as text without braces.
    ATTRIBUTES = 83
    ATTRIBUTES_LENGTH = 84
    COUNT_DUE = 85  # double [COUNTED_SIZE] by interface: the seconds from which a count makes something due
    # The messages of others that were delivered last.
    DELIVERED_LAST = 86  # uint64: `router.protocol.delivered`
    DUPLICATES = 87  # messages that came to the applications a second time, since the counters were collected
    # Turns: from the end of a wait to the next wait.
    WOKEN = 88  # monotonic ns at which the last wait has ended
    WOKEN_CPU = 89  # CPU time of the thread then, ns
    TURN = 90  # ns of the longest turn that ended in compiled code, since the caller has asked
    TURN_CPU = 91  # likewise, the greatest CPU time of one
    SIZE = 92


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
#: Columns of an application: its number; the descriptor of its socket (-1: the core delivers to it); the part
#: of its records between time and source; its number in the matcher; its deliveries that wait.
APP_NUMBER, APP_DESCRIPTOR, APP_HEAD, APP_HEAD_LENGTH, APP_DENSE, APP_QUEUED, APP_WIDTH = range(7)
#: Columns of a line for an application: the row of the application; address and length of what its socket has
#: not taken of the line; source (-1: the line is an answer) and sequence number of the message.
ENTRY_APP, ENTRY_AT, ENTRY_LENGTH, ENTRY_SOURCE, ENTRY_SEQ, ENTRY_WIDTH = range(6)
#: Lines that may wait; applications that one message may be delivered to; bytes of records, and of requests
#: that are read at once.
ENTRIES_SIZE, MOST_CHOSEN, RECORDS_SIZE, REQUESTS_SIZE = 256, 32, 65_536, 65_536
#: Parts of lines for applications (docs/application-socket.md) and of their records, one behind the other.
TEXT = (
    b'{"event":"deliver","source":',
    b',"seq":',
    b',"attributes":{',
    b"}}\n",
    b'{"event":"deliver","t_ns":',
    b"}\n",
    b'{"event":"send_message","t_ns":',
    b',"requested_ns":',
    b',"source":',
    b'{"id":',
    b',"ok":true,"source":',
)
TEXT_LENGTHS = tuple(map(len, TEXT))
TEXT_PLACES = tuple(sum(TEXT_LENGTHS[:number]) for number in range(len(TEXT)))
LINE_SOURCE, SEQ, LINE_ATTRIBUTES, LINE_END, RECORD_TIME, RECORD_END = range(6)
REQUEST_TIME, REQUESTED, RECORD_SOURCE, ANSWER_ID, ANSWER_SOURCE = range(6, 11)
#: Bytes of a delivery and an answer beyond twice those of the message's body; of a record beyond its head.
LINE_OVERHEAD, RECORD_OVERHEAD = 300, 192
#: Bytes of a message's log beyond those of its frame: the heads of the records of event and actions, the
#: interfaces of one page, and the applications.
LOG_OVERHEAD = 256 + 4 * MOST_CHOSEN
