"""Forwarding of a batch of messages in one call of compiled code.

A frame is decided here if it is an ordinary message: whole, of a held epoch, from the neighbour that its tree
comes from, with hops left, to interfaces of one page of addresses, and to no application of this node. Every
other frame is left to the core (`router.protocol`), in its place in the order of arrival.

`state` is the address of the row of a router (`layout.State`), `frame` that of an Ethernet frame.
"""

from __future__ import annotations

from select import EPOLLIN
from socket import MSG_DONTWAIT, MSG_TRUNC
from time import CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_THREAD_CPUTIME_ID

from router.forwarding.compiler import callee, kernel
from router.forwarding.deciding import SEVERAL, count_through, is_long, outputs, steps_spent
from router.forwarding.layout import (
    CLASS_SENDER,
    CLASS_WIDTH,
    EPOCH,
    EPOCH_CLASS_OF,
    EPOCH_CLASSES,
    EPOCH_SOURCES,
    EPOCH_WIDTH,
    EVENT_DATA,
    EVENTS_SIZE,
    HEADER_LENGTH_WORD,
    HEADER_WIDTH,
    LAG_LOOK_NS,
    LAG_SHOWN_NS,
    LOG_OVERHEAD,
    NEVER,
    State,
)
from router.forwarding.log import log_message
from router.forwarding.row import add, time_of
from router.forwarding.sending import add_frame, send_frames
from router.native.compiler import I64, Address, Flag
from router.native.libc import SIOCGSTAMPNS
from router.native.memory import (
    byte_at,
    int_at,
    load_u8,
    load_u16,
    load_u32,
    long_at,
    put_byte,
    put_long,
    put_real,
    real_at,
    short_at,
)
from router.native.system import epoll_wait, ioctl, recvmmsg
from router.wire.addresses import ETHERNET_HEADER_LENGTH as ETHERNET
from router.wire.addresses import node_address
from router.wire.format import MAX_BODY_LENGTH, VERSION, Flags, FrameType
from router.wire.header import HEADER_LENGTH as _HEADER
from router.wire.header import HEADER_OFFSETS

_SOCKET, _SLOTS, _ROOM = int(State.SOCKET), int(State.SLOTS), int(State.ROOM)
_HEADERS_IN, _FRAMES, _COUNT, _NEXT = (
    int(State.HEADERS_IN),
    int(State.FRAMES),
    int(State.COUNT),
    int(State.NEXT),
)
_OUT, _SENT, _HOLD = int(State.OUT), int(State.SENT), int(State.HOLD)
_NODE, _MTU, _BODY_ROOM = int(State.NODE), int(State.MTU), int(State.BODY_ROOM)
_EPOCHS, _EPOCH_COUNT = int(State.EPOCHS), int(State.EPOCH_COUNT)
_COUNTED, _COUNTED_SIZE, _COUNT_LIMIT, _COUNT_DUE = (
    int(State.COUNTED),
    int(State.COUNTED_SIZE),
    int(State.COUNT_LIMIT),
    int(State.COUNT_DUE),
)
_LOG, _LOG_AT, _NOW = int(State.LOG), int(State.LOG_AT), int(State.NOW)
_EPOLL, _EVENTS, _READY, _STOPPED = (
    int(State.EPOLL),
    int(State.EVENTS),
    int(State.READY),
    int(State.STOPPED),
)
_DEADLINE, _TIME = int(State.DEADLINE), int(State.TIME)
_CLOCK_START, _CLOCK_SECONDS, _CLOCK_RATE, _CLOCK_UNTIL = (
    int(State.CLOCK_START),
    int(State.CLOCK_SECONDS),
    int(State.CLOCK_RATE),
    int(State.CLOCK_UNTIL),
)
_CLOCK_LINES, _CLOCK_LINES_KNOWN = int(State.CLOCK_LINES), int(State.CLOCK_LINES_KNOWN)
_LOG_ROOM, _LOG_UNTIL = int(State.LOG_ROOM), int(State.LOG_UNTIL)
_LAG, _LAG_LOOK, _CLOCK_STALE = int(State.LAG), int(State.LAG_LOOK), int(State.CLOCK_STALE)
_FRAMES_DONE, _BYTES_DONE = int(State.FRAMES_DONE), int(State.BYTES_DONE)
_FORWARDED, _UNWANTED = int(State.FORWARDED), int(State.UNWANTED)
_WOKEN, _WOKEN_CPU = int(State.WOKEN), int(State.WOKEN_CPU)
_TURN, _TURN_CPU = int(State.TURN), int(State.TURN_CPU)

_THREAD_CPU = int(CLOCK_THREAD_CPUTIME_ID)
_MONOTONIC, _REALTIME, _EPOLLIN = int(CLOCK_MONOTONIC), int(CLOCK_REALTIME), int(EPOLLIN)
_RECEIVE_FLAGS = int(MSG_DONTWAIT | MSG_TRUNC)
_MESSAGE, _SIGNED = int(FrameType.MSG), int(Flags.SIGNED)
#: Offsets in the header of a frame.
_TYPE, _FLAGS, _HOP_LIMIT, _ISSUER, _SEQ, _EPOCH, _TOTAL_LENGTH, _INDEX, _FRAGMENTS, _LENGTH, _RESERVED = (
    HEADER_OFFSETS[name]
    for name in (
        "type",
        "flags",
        "hop_limit",
        "issuer",
        "seq",
        "epoch",
        "total_length",
        "fragment_index",
        "fragment_count",
        "payload_length",
        "reserved",
    )
)
#: Offsets in an Ethernet frame, and the first two bytes of a router's address.
_SOURCE, _PAYLOAD = 6, ETHERNET
_ROUTERS = int.from_bytes(node_address(0)[:2], "big")


@kernel
def forward(state: Address, fresh: I64) -> I64:
    """Decides the frames of a batch in their order, as far as the first that is the core's, and sends.

    Args:
        state: the router.
        fresh: 1: receive a batch first; 0: go on at frame `State.NEXT`.

    Returns:
        The number of the first frame that was not decided, which is the core's, or `State.COUNT`: all were.
    """
    if fresh:
        _receive(state)
    return _forward(state)


@kernel
def serve(state: Address) -> None:
    """Waits, and forwards batches of messages for as long as nothing else is ready or due.

    Returns when something else is ready (`State.READY` events), a frame is the core's or could not be sent
    (`State.STOPPED`), the deadline has come, or the caller must look at clock or recording.
    """
    while True:
        put_long(state, _READY, 0)
        deadline, timeout = long_at(state, _DEADLINE), -1
        if deadline != NEVER:
            # Rounded up: not again just before the deadline.
            timeout = max(0, min(1 << 30, (deadline - time_of(state, _MONOTONIC) + 999_999) // 1_000_000))
        ready = max(0, epoll_wait(long_at(state, _EPOLL), long_at(state, _EVENTS), EVENTS_SIZE, timeout))
        put_long(state, _READY, ready)
        now = time_of(state, _MONOTONIC)
        put_long(state, _WOKEN, now)
        put_long(state, _WOKEN_CPU, time_of(state, _THREAD_CPU))
        if ready == 0 or not _is_ordinary(state, ready):
            return
        lines = long_at(state, _CLOCK_LINES)
        seconds = real_at(state, _CLOCK_SECONDS) + (now - long_at(state, _CLOCK_START)) * (
            real_at(state, _CLOCK_RATE) / 1e9
        )
        if now >= long_at(state, _CLOCK_UNTIL) or (
            lines != 0 and long_at(lines, 0) != long_at(state, _CLOCK_LINES_KNOWN)
        ):
            put_long(state, _CLOCK_STALE, 1)
            return
        if (
            long_at(state, _HOLD)
            or now >= deadline
            or (long_at(state, _LOG) != 0 and (_is_full(state) or seconds >= real_at(state, _LOG_UNTIL)))
        ):
            return
        put_real(state, _NOW, max(seconds, real_at(state, _NOW)))
        put_long(state, _READY, 0)
        _receive(state)
        _forward(state)
        if long_at(state, _NEXT) < long_at(state, _COUNT) or long_at(state, _SENT) < long_at(state, _OUT):
            put_long(state, _STOPPED, 1)
            return
        if long_at(state, _LAG) >= LAG_SHOWN_NS:
            return
        _end_turn(state)


@callee
def _end_turn(state: Address) -> None:
    """Notes how long a turn has taken that ends in compiled code."""
    took = time_of(state, _MONOTONIC) - long_at(state, _WOKEN)
    put_long(state, _TURN, max(took, long_at(state, _TURN)))
    # It has no more CPU time: most turns need not ask for it.
    if took > long_at(state, _TURN_CPU):
        cpu = time_of(state, _THREAD_CPU) - long_at(state, _WOKEN_CPU)
        put_long(state, _TURN_CPU, max(cpu, long_at(state, _TURN_CPU)))


@callee
def _is_ordinary(state: Address, ready: I64) -> Flag:
    """Whether messages are all that is ready."""
    event = long_at(state, _EVENTS)
    return (
        ready == 1
        and int_at(event, 0) == _EPOLLIN
        and int_at(event + EVENT_DATA, 0) == long_at(state, _SOCKET)
    )


@callee
def _is_full(state: Address) -> Flag:
    """Whether the log of another batch might not fit."""
    batch = long_at(state, _SLOTS) * (long_at(state, _ROOM) + LOG_OVERHEAD)
    return long_at(state, _LOG_AT) + batch > long_at(state, _LOG_ROOM)


@callee
def _receive(state: Address) -> None:
    """Receives a batch; notes now and then how long its first frame, which is the oldest, has waited."""
    socket, headers, slots = long_at(state, _SOCKET), long_at(state, _HEADERS_IN), long_at(state, _SLOTS)
    put_long(state, _NEXT, 0)
    now = time_of(state, _MONOTONIC)
    if now < long_at(state, _LAG_LOOK):
        put_long(state, _COUNT, max(0, recvmmsg(socket, headers, slots, _RECEIVE_FLAGS, 0)))
        return
    put_long(state, _LAG_LOOK, now + LAG_LOOK_NS)
    # The kernel gives the stamp of the frame that was received last.
    count = max(0, recvmmsg(socket, headers, 1, _RECEIVE_FLAGS, 0))
    if count and ioctl(socket, SIOCGSTAMPNS, state + 8 * _TIME) == 0:
        stamp = long_at(state, _TIME) * 1_000_000_000 + long_at(state, _TIME + 1)
        put_long(state, _LAG, max(long_at(state, _LAG), time_of(state, _REALTIME) - stamp))
    if count and slots > 1:
        count += max(0, recvmmsg(socket, headers + 8 * HEADER_WIDTH, slots - 1, _RECEIVE_FLAGS, 0))
    put_long(state, _COUNT, count)


@callee
def _forward(state: Address) -> I64:
    put_long(state, _OUT, 0)
    put_long(state, _SENT, 0)
    number, count = long_at(state, _NEXT), long_at(state, _COUNT)
    headers, room = long_at(state, _HEADERS_IN), long_at(state, _ROOM)
    frame = long_at(state, _FRAMES) + number * room
    undecided = _is_due(state)
    spent = steps_spent(state)
    while number < count and not undecided:
        # The low half of the word; the high half is padding.
        size = long_at(headers, number * HEADER_WIDTH + HEADER_LENGTH_WORD) & 0xFFFF_FFFF
        undecided = size > room or is_long(state, spent) or not _decided(state, frame, size)
        if not undecided:
            number += 1
            frame += room
    put_long(state, _NEXT, number)
    send_frames(state)
    return number


@callee
def _is_due(state: Address) -> Flag:
    """Whether a count of messages makes something due with the next message."""
    counted, limit = long_at(state, _COUNTED), long_at(state, _COUNT_LIMIT)
    if counted:
        due, now = long_at(state, _COUNT_DUE), real_at(state, _NOW)
        for interface in range(long_at(state, _COUNTED_SIZE)):
            if long_at(counted, interface) > limit and now >= real_at(due, interface):
                return True
    return False


@callee
def _decided(state: Address, frame: Address, size: I64) -> Flag:
    """Whether the frame was decided: forwarded, or found unwanted; counted and logged."""
    row = _class_of_message(state, frame, size)
    if row == 0:
        return False
    body = load_u16(frame + _PAYLOAD + _LENGTH)
    content = frame + _PAYLOAD + _HEADER
    page, bits, local = outputs(state, row, content, body)
    if page == SEVERAL or local or (bits and not count_through(state, row, page, bits)):
        return False
    add(state, _FRAMES_DONE, 1)
    add(state, _BYTES_DONE, size)
    if long_at(state, _LOG):
        log_message(state, frame, body, page, bits)
    if bits:
        put_byte(frame, _PAYLOAD + _HOP_LIMIT, byte_at(frame, _PAYLOAD + _HOP_LIMIT) - 1)
        add_frame(state, frame, body, page, bits)
        add(state, _FORWARDED, 1)
    else:
        add(state, _UNWANTED, 1)
    return True


@callee
def _class_of_message(state: Address, frame: Address, size: I64) -> Address:
    """The row of the class of a message's source, or 0: the frame is the core's."""
    if size < ETHERNET + _HEADER or load_u16(frame + _SOURCE) != _ROUTERS:
        return 0
    at = frame + _PAYLOAD
    total = load_u32(at + _TOTAL_LENGTH)
    if (
        load_u8(at) != VERSION
        or load_u8(at + _TYPE) != _MESSAGE
        or load_u8(at + _FLAGS) & _SIGNED
        or load_u8(at + _HOP_LIMIT) < 2
        or load_u16(at + _INDEX) != 0
        or load_u16(at + _FRAGMENTS) != 1
        or load_u16(at + _LENGTH) != total
        or load_u16(at + _RESERVED) != 0
        or total > MAX_BODY_LENGTH
        or total > size - ETHERNET - _HEADER
        or total > long_at(state, _BODY_ROOM)
        or total + _HEADER > long_at(state, _MTU)
    ):
        return 0
    source, epoch = load_u32(at + _ISSUER), load_u32(at + _EPOCH)
    rows = long_at(state, _EPOCHS)
    for _ in range(long_at(state, _EPOCH_COUNT)):
        if long_at(rows, EPOCH) == epoch:
            if source == long_at(state, _NODE) or source >= long_at(rows, EPOCH_SOURCES):
                return 0
            number = short_at(long_at(rows, EPOCH_CLASS_OF), source)
            if number == 0:
                return 0
            row = long_at(rows, EPOCH_CLASSES) + 8 * CLASS_WIDTH * number
            return row if long_at(row, CLASS_SENDER) == load_u32(frame + _SOURCE + 2) else 0
        rows += 8 * EPOCH_WIDTH
    return 0
