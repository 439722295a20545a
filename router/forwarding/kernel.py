"""Batches of messages: wait, receive, decide, record, send.

`serve` waits for batches. A call of `forward` decides the frames of a batch in their order of arrival as far
as the first frame that is the core's (`router.protocol`), or that applications of this node get, sends what
it has decided, and hands the rest back to Python.

`state` is the address of the row of a router (`layout`), `frame` that of an Ethernet frame.
"""

from __future__ import annotations

import platform
import select
from socket import MSG_DONTWAIT, MSG_TRUNC
from time import CLOCK_MONOTONIC, CLOCK_REALTIME

from router.clock.meter import LAG, RECENT, TURN
from router.forwarding import layout
from router.forwarding.deciding import (
    HOP_LIMIT,
    LENGTH,
    SEVERAL,
    SOURCE,
    callee,
    class_of_message,
    count_through,
    is_due,
    is_long,
    kernel,
    outputs,
    steps_spent,
)
from router.native import (
    I64,
    Address,
    Flag,
    byte_at,
    clock_gettime,
    epoll_wait,
    int_at,
    ioctl,
    load_u16,
    load_u32,
    long_at,
    memcpy,
    put_byte,
    put_int,
    put_long,
    put_real,
    put_short,
    real_at,
    recvmmsg,
    sendmmsg,
)
from router.recording import (
    ACTIONS,
    COUNT,
    EVENT,
    FORWARD,
    FRAME_RECEIVED,
    INTERFACE,
    LENGTH_AT,
    RECORD,
    TIME_AT,
    TIME_BYTES,
)
from router.system import SIOCGSTAMPNS
from router.wire.header import ETHERNET_HEADER_LENGTH as ETHERNET, ETHERTYPE, HEADER_LENGTH, PORTS_PER_PAGE

_MONOTONIC, _REALTIME = int(CLOCK_MONOTONIC), int(CLOCK_REALTIME)
_RECEIVE_FLAGS, _SEND_FLAGS = int(MSG_DONTWAIT | MSG_TRUNC), int(MSG_DONTWAIT)
#: Bytes of the parts of a record.
_RECORD, _EVENT, _PORT, _COUNT = RECORD.size, EVENT.size, INTERFACE.size, COUNT.size
#: struct epoll_event as int32: which of them is the descriptor; it is packed on one kind of processor alone.
_EVENT_DATA, _READABLE = 1 if platform.machine() == "x86_64" else 2, int(select.EPOLLIN)
#: The longest wait, milliseconds.
_LONGEST_MS = 2**31 - 1
#: Nanoseconds between two looks at how long a frame has waited.
_LAG_LOOK_NS = 5_000_000


@kernel
def serve(state: Address) -> I64:
    """Waits, and forwards batches of messages for as long as nothing else is ready.

    Returns:
        Why it ends: `layout.OTHERS`, `layout.FRAMES_LEFT` (as `forward`), or `layout.NOTES`.
    """
    events, ended = long_at(state, layout.EVENTS), _time_of(state, _MONOTONIC)
    while True:
        left_ms = (long_at(state, layout.END) - ended) // 1_000_000 + 1
        ready = epoll_wait(long_at(state, layout.EPOLL), events, 2, min(max(left_ms, 0), _LONGEST_MS))
        began = _time_of(state, _MONOTONIC)
        put_long(state, layout.BEGAN, began)
        # -1: a signal has come.
        alone = ready == 1 and int_at(events, _EVENT_DATA) == long_at(state, layout.SOCKET)
        if not alone or int_at(events, 0) != _READABLE or began >= long_at(state, layout.END):
            return layout.OTHERS
        if not _reads_clock(state, began):
            return layout.NOTES
        if forward(state, 1):
            return layout.FRAMES_LEFT
        ended = _time_of(state, _MONOTONIC)
        if _has_notes(state, ended - began):
            return layout.NOTES


@callee
def _reads_clock(state: Address, now_ns: I64) -> Flag:
    """Sets the time of the batch; False: the caller has to look at the clock, or at the recording."""
    seen, count = long_at(state, layout.CHANGES_SEEN), long_at(long_at(state, layout.CHANGES), 0)
    if count != seen or now_ns >= long_at(state, layout.PIECE_END):
        return False
    passed = (now_ns - long_at(state, layout.PIECE_START)) * real_at(state, layout.PIECE_RATE)
    at = max(real_at(state, layout.NOW), real_at(state, layout.PIECE_SECOND) + passed / 1e9)
    put_real(state, layout.NOW, at)
    has_room = long_at(state, layout.LOG_AT) <= long_at(state, layout.LOG_MOST)
    return has_room and at < real_at(state, layout.LOG_DUE)


@callee
def _has_notes(state: Address, turn_ns: I64) -> Flag:
    """Whether the batch was the longest turn, or its first frame has waited the longest."""
    slot, lag_s = long_at(state, layout.METER), long_at(state, layout.LAG) / 1e9
    late = lag_s > real_at(slot, RECENT) or lag_s * real_at(state, layout.PIECE_RATE) > real_at(slot, LAG)
    if not late:
        put_long(state, layout.LAG, 0)
    return late or turn_ns / 1e9 > real_at(slot, TURN)


@kernel
def forward(state: Address, fresh: I64) -> Flag:
    """Decides the frames of a batch in their order, as far as the first that is the core's, and sends.

    Args:
        state: the router.
        fresh: 1: receive a batch first; 0: go on at frame `layout.NEXT`.

    `layout.NEXT` is afterwards

    - the first frame that was not decided, which is the core's,
    - or a frame that was decided, and that applications get (`layout.LOCAL`),
    - or `layout.COUNT`.

    The call first sends the frames that an earlier call could not send.

    Returns:
        Whether frames are left: not decided, not delivered, or not sent.
    """
    if fresh:
        _receive(state)
        put_long(state, layout.OUT, 0)
        put_long(state, layout.SENT, 0)
    put_long(state, layout.LOCAL, 0)
    number, count = long_at(state, layout.NEXT), long_at(state, layout.COUNT)
    headers, room = long_at(state, layout.HEADERS_IN), long_at(state, layout.ROOM)
    frame = long_at(state, layout.FRAMES) + number * room
    stops = is_due(state)
    spent = steps_spent(state)
    while number < count and not stops:
        # The low half of the word; the high half is padding.
        size = long_at(headers, number * layout.HEADER_WIDTH + layout.HEADER_LENGTH_WORD) & 0xFFFF_FFFF
        undecided = size > room or is_long(state, spent) or not _decided(state, frame, size)
        stops = undecided or long_at(state, layout.LOCAL) != 0
        if not stops:
            number += 1
            frame += room
    put_long(state, layout.NEXT, number)
    _send(state)
    return number < count or long_at(state, layout.SENT) < long_at(state, layout.OUT)


@callee
def _receive(state: Address) -> None:
    """Receives a batch; notes now and then how long its first frame, which is the oldest, has waited."""
    socket, headers = long_at(state, layout.SOCKET), long_at(state, layout.HEADERS_IN)
    slots = long_at(state, layout.SLOTS)
    put_long(state, layout.NEXT, 0)
    now = _time_of(state, _MONOTONIC)
    if now < long_at(state, layout.LAG_LOOK):
        put_long(state, layout.COUNT, max(0, recvmmsg(socket, headers, slots, _RECEIVE_FLAGS, 0)))
        return
    put_long(state, layout.LAG_LOOK, now + _LAG_LOOK_NS)
    # The kernel gives the stamp of the frame that was received last.
    count = max(0, recvmmsg(socket, headers, 1, _RECEIVE_FLAGS, 0))
    if count and ioctl(socket, SIOCGSTAMPNS, state + 8 * layout.TIME) == 0:
        stamp = long_at(state, layout.TIME) * 1_000_000_000 + long_at(state, layout.TIME_NS)
        put_long(state, layout.LAG, max(long_at(state, layout.LAG), _time_of(state, _REALTIME) - stamp))
    if count and slots > 1:
        behind = headers + 8 * layout.HEADER_WIDTH
        count += max(0, recvmmsg(socket, behind, slots - 1, _RECEIVE_FLAGS, 0))
    put_long(state, layout.COUNT, count)


@callee
def _decided(state: Address, frame: Address, size: I64) -> Flag:
    """Whether the frame was decided: forwarded, for applications, or unwanted; counted and logged."""
    row = class_of_message(state, frame, size)
    if row == 0:
        return False
    body = load_u16(frame + ETHERNET + LENGTH)
    page, bits, local = outputs(state, row, frame + ETHERNET + HEADER_LENGTH, body)
    if page == SEVERAL or (bits and not count_through(state, row, page, bits)):
        return False
    _add(state, layout.FRAMES_DONE, 1)
    _add(state, layout.BYTES_DONE, size)
    if local:
        put_long(state, layout.LOCAL, layout.IS_LOCAL if bits else layout.IS_LOCAL_ALONE)
    if long_at(state, layout.LOG):
        _record(state, frame, body, page, bits)
    if bits:
        hops = frame + ETHERNET + HOP_LIMIT
        put_byte(hops, 0, byte_at(hops, 0) - 1)
        _address(state, frame, body, page, bits)
        _add(state, layout.FORWARDED, 1)
    elif not local:
        _add(state, layout.UNWANTED, 1)
    return True


@callee
def _address(state: Address, frame: Address, body: I64, page: I64, bits: I64) -> None:
    """Writes the addresses of a frame in its buffer, and adds it to the frames to send."""
    put_byte(frame, 0, 3)
    put_byte(frame, 1, page)
    for place in range(4):
        put_byte(frame, 2 + place, bits >> (24 - 8 * place))
    memcpy(frame + SOURCE, state + 8 * layout.ADDRESS, 6)
    put_byte(frame, 12, ETHERTYPE >> 8)
    put_byte(frame, 13, ETHERTYPE & 0xFF)
    piece = long_at(state, layout.PIECES_OUT) + 16 * long_at(state, layout.OUT)
    put_long(piece, 0, frame)
    # Without the padding of the frame that came in.
    put_long(piece, 1, ETHERNET + HEADER_LENGTH + body)
    _add(state, layout.OUT, 1)


@callee
def _send(state: Address) -> None:
    """Sends as many of the frames as the socket takes, unless the caller is to send them."""
    out, before = long_at(state, layout.OUT), long_at(state, layout.SENT)
    if out == before or long_at(state, layout.HOLD):
        return
    headers = long_at(state, layout.HEADERS_OUT) + 8 * layout.HEADER_WIDTH * before
    sent = before + max(0, sendmmsg(long_at(state, layout.SOCKET), headers, out - before, _SEND_FLAGS))
    _add(state, layout.FRAMES_SENT, sent - before)
    pieces, total = long_at(state, layout.PIECES_OUT), 0
    for piece in range(before, sent):
        total += long_at(pieces, 2 * piece + 1)
    _add(state, layout.BYTES_SENT, total)
    put_long(state, layout.OUT, out if sent < out else 0)
    put_long(state, layout.SENT, sent if sent < out else 0)


@callee
def _add(state: Address, column: I64, value: I64) -> None:
    put_long(state, column, long_at(state, column) + value)


@callee
def _time_of(state: Address, clock: I64) -> I64:
    """Nanoseconds of a clock of the system."""
    clock_gettime(clock, state + 8 * layout.TIME)
    return long_at(state, layout.TIME) * 1_000_000_000 + long_at(state, layout.TIME_NS)


@callee
def _record(state: Address, frame: Address, body: I64, page: I64, bits: I64) -> None:
    """Records that a message came in, and where it goes, as `router.recording.file.Recorder` does.

    `Recorder.answer` completes the record of a message for applications, which does not count before.
    """
    start = long_at(state, layout.LOG) + long_at(state, layout.LOG_AT)
    content = start + _EVENT
    put_int(start + LENGTH_AT, 0, TIME_BYTES + 4 + HEADER_LENGTH + body)
    put_long(start + TIME_AT, 0, long_at(state, layout.NOW))
    put_int(content, 0, load_u32(frame + SOURCE + 2))
    memcpy(content + 4, frame + ETHERNET, HEADER_LENGTH + body)
    answer = content + 4 + HEADER_LENGTH + body
    at = answer + _RECORD
    if bits:
        put_byte(at, 0, FORWARD)
        at = _put_ports(page, bits, at + 1)
    put_byte(answer, 0, ACTIONS)
    put_int(answer + LENGTH_AT, 0, at - answer - _RECORD)
    # Last, so that the records count all or not at all if the process is killed.
    put_byte(start, 0, 0 if long_at(state, layout.LOCAL) else FRAME_RECEIVED)
    log = long_at(state, layout.LOG)
    put_long(state, layout.EVENT_AT, start - log)
    put_long(state, layout.ANSWER_AT, answer - log)
    put_long(state, layout.LOG_AT, at - log)


@callee
def _put_ports(page: I64, bits: I64, at: Address) -> Address:
    ports = 0
    for bit in range(PORTS_PER_PAGE):
        if bits >> bit & 1:
            put_short(at + _COUNT, ports, PORTS_PER_PAGE * page + bit + 1)
            ports += 1
    put_short(at, 0, ports)
    return at + _COUNT + _PORT * ports
