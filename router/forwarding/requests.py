"""Requests of applications to send a message, served in compiled code.

What an application's socket has is read in one call. Each line that is an ordinary request is sent as the
core would have sent it; the first that is not, and what is behind it, is left to Python code.

`state` is the address of the row of a router (`layout.State`), `app` that of the row of an application.
"""

from __future__ import annotations

from socket import MSG_DONTWAIT
from time import CLOCK_REALTIME

from router.forwarding.compiler import callee
from router.forwarding.deciding import SEVERAL, count_through, is_long, outputs, steps_spent
from router.forwarding.delivery import (
    answer,
    choose,
    deliver,
    has_room,
    queue,
    record_request,
    write_line,
)
from router.forwarding.json_request import REQUEST, read_request
from router.forwarding.layout import (
    APP_DESCRIPTOR,
    LOG_OVERHEAD,
    REQUESTS_SIZE,
    State,
)
from router.forwarding.log import log_request
from router.forwarding.row import add, time_of
from router.forwarding.sending import add_frame, send_frames
from router.native.compiler import I64, Address, Flag
from router.native.memory import long_at, put_byte, put_long
from router.native.system import memchr, memcpy, recv
from router.wire.addresses import ETHERNET_HEADER_LENGTH as ETHERNET
from router.wire.header import HEADER_LENGTH
from router.wire.layouts import HEADER_OFFSETS

_FRAMES, _ROOM, _SLOTS, _MTU = int(State.FRAMES), int(State.ROOM), int(State.SLOTS), int(State.MTU)
_OUT, _SENT, _BODY_ROOM = int(State.OUT), int(State.SENT), int(State.BODY_ROOM)
_LOG, _LOG_AT, _LOG_ROOM = int(State.LOG), int(State.LOG_AT), int(State.LOG_ROOM)
_LINES_AT = int(State.LINES_AT)
_REQUESTS, _REQUESTS_AT, _REQUESTS_END = (
    int(State.REQUESTS),
    int(State.REQUESTS_AT),
    int(State.REQUESTS_END),
)
_REQUESTS_APP, _REQUEST_TEXTS = int(State.REQUESTS_APP), int(State.REQUEST_TEXTS)
_OWN_CLASS, _OWN_FRAME, _ACCEPTED = int(State.OWN_CLASS), int(State.OWN_FRAME), int(State.ACCEPTED)
_FIRST_SEQ, _NODE = int(State.FIRST_SEQ), int(State.NODE)
_MESSAGES_SENT, _UNMATCHED = int(State.MESSAGES_SENT), int(State.UNMATCHED)
_ATTRIBUTES, _ATTRIBUTES_LENGTH = int(State.ATTRIBUTES), int(State.ATTRIBUTES_LENGTH)
_RECEIVE_FLAGS, _REALTIME = int(MSG_DONTWAIT), int(CLOCK_REALTIME)
_SEQ, _TOTAL_LENGTH, _LENGTH = (
    ETHERNET + HEADER_OFFSETS[name] for name in ("seq", "total_length", "payload_length")
)
_HEAD = ETHERNET + HEADER_LENGTH
_LINE_FEED = ord("\n")
_NUMBER_AT = len(REQUEST[0])


@callee
def serve_requests(state: Address, app: Address) -> Flag:
    """Reads and serves requests of an application; all frames of the batch before must have been sent.

    Returns:
        Whether nothing is left to Python code: requests (`State.REQUESTS_AT`), frames, or lines.
    """
    requests = long_at(state, _REQUESTS)
    size = recv(long_at(app, APP_DESCRIPTOR), requests, REQUESTS_SIZE, _RECEIVE_FLAGS)
    if size <= 0:
        # Python code finds out why.
        put_long(app, APP_DESCRIPTOR, -1)
        return False
    now = time_of(state, _REALTIME)
    put_long(state, _OUT, 0)
    put_long(state, _SENT, 0)
    at, end, served = requests, requests + size, True
    spent = steps_spent(state)
    while at < end and served:
        line_end = memchr(at, _LINE_FEED, end - at)
        served = line_end != 0 and not is_long(state, spent) and _send_message(state, app, at, line_end, now)
        if served:
            at = line_end + 1
            if long_at(state, _OUT) == long_at(state, _SLOTS):
                send_frames(state)
                if long_at(state, _SENT) < long_at(state, _OUT):
                    break
                put_long(state, _OUT, 0)
                put_long(state, _SENT, 0)
    if long_at(state, _SENT) == 0:
        # Otherwise the link has taken a part of a full batch, and would get that part twice.
        send_frames(state)
    deliver(state)
    if at < end:
        put_long(app, APP_DESCRIPTOR, -1)
        put_long(state, _REQUESTS_APP, app)
        put_long(state, _REQUESTS_AT, at - requests)
        put_long(state, _REQUESTS_END, size)
        return False
    return long_at(state, _SENT) == long_at(state, _OUT)


@callee
def _send_message(state: Address, app: Address, at: Address, end: Address, now: I64) -> Flag:
    """Whether the line was a request that was served."""
    own = long_at(state, _OWN_CLASS)
    if own == 0:
        return False
    frame = long_at(state, _FRAMES) + long_at(state, _OUT) * long_at(state, _ROOM)
    room = min(
        min(long_at(state, _ROOM) - _HEAD, long_at(state, _MTU) - HEADER_LENGTH), long_at(state, _BODY_ROOM)
    )
    body, digits = read_request(long_at(state, _REQUEST_TEXTS), at, end, frame + _HEAD, room)
    if body == 0:
        return False
    page, bits, local = outputs(state, own, frame + _HEAD, body)
    if page == SEVERAL:
        return False
    chosen = choose(state, frame + _HEAD, body) if local else 0
    if chosen < 0 or not has_room(state, chosen + 1, body):
        return False
    source, accepted = long_at(state, _NODE), long_at(long_at(state, _ACCEPTED), 0) + 1
    seq = long_at(state, _FIRST_SEQ) + accepted
    line = write_line(state, source, seq)
    if (
        line == 0
        or (
            long_at(state, _LOG) != 0
            and long_at(state, _LOG_AT) + 4 * body + LOG_OVERHEAD > long_at(state, _LOG_ROOM)
        )
        or (bits and not count_through(state, own, page, bits))
    ):
        return False
    put_long(long_at(state, _ACCEPTED), 0, accepted)
    add(state, _MESSAGES_SENT, 1)
    memcpy(frame, long_at(state, _OWN_FRAME), _HEAD)
    _put_network(seq, 8, frame + _SEQ)
    _put_network(body, 4, frame + _TOTAL_LENGTH)
    _put_network(body, 2, frame + _LENGTH)
    text, length = long_at(state, _ATTRIBUTES), long_at(state, _ATTRIBUTES_LENGTH)
    record_request(state, app, source, seq, now, text, length)
    if long_at(state, _LOG):
        log_request(state, app, text, length, frame, body, page, bits, chosen)
    if bits:
        add_frame(state, frame, body, page, bits)
    elif not chosen:
        add(state, _UNMATCHED, 1)
    # The answer comes before the delivery of the message to the application itself.
    answered = answer(state, app, at + _NUMBER_AT, digits, line, source, seq)
    if chosen:
        queue(state, chosen, line, source, seq)
    add(state, _LINES_AT, line + answered)
    return True


@callee
def _put_network(number: I64, size: I64, at: Address) -> None:
    """Writes a number in network byte order."""
    for place in range(size):
        put_byte(at, place, number >> (8 * (size - 1 - place)))
