"""The records of what compiled code did, as `router.recording.file.Recorder` writes them.

`state` is the address of the row of a router (`layout.State`), `frame` that of an Ethernet frame.
"""

from __future__ import annotations

from router.forwarding.compiler import callee
from router.forwarding.layout import APP_NUMBER, State
from router.forwarding.sending import SOURCE
from router.native.compiler import I64, Address
from router.native.memory import (
    load_u32,
    load_u64,
    long_at,
    put_byte,
    put_int,
    put_long,
    put_short,
)
from router.native.system import memcpy
from router.recording.format import (
    ACCEPTANCE,
    ACCEPTED,
    ACTIONS,
    APPLICATION,
    COUNT,
    DELIVER,
    DELIVERED,
    EVENT,
    FORWARD,
    FRAME_RECEIVED,
    INTERFACE,
    LENGTH,
    LENGTH_AT,
    RECORD,
    SEND,
    SEND_MESSAGE,
    TIME_AT,
    TIME_BYTES,
)
from router.wire.addresses import ETHERNET_HEADER_LENGTH as ETHERNET
from router.wire.addresses import PORTS_PER_PAGE
from router.wire.header import HEADER_LENGTH
from router.wire.layouts import HEADER_OFFSETS

_LOG, _LOG_AT, _NOW, _CHOSEN = int(State.LOG), int(State.LOG_AT), int(State.NOW), int(State.CHOSEN)
#: Bytes of the parts of a record.
_RECORD, _EVENT, _DELIVERED, _ACCEPTED = RECORD.size, EVENT.size, DELIVERED.size, ACCEPTANCE.size
_APP, _PORT, _COUNT, _LENGTH = APPLICATION.size, INTERFACE.size, COUNT.size, LENGTH.size
#: Source and sequence number of a message in an action: where they begin in DELIVER and in ACCEPTED.
_SOURCE_DELIVERED, _SOURCE_ACCEPTED, _NUMBER = 1, 1 + APPLICATION.size, 4
_ISSUER, _SEQ = (ETHERNET + HEADER_OFFSETS[name] for name in ("issuer", "seq"))


@callee
def log_message(state: Address, frame: Address, body: I64, page: I64, bits: I64, chosen: I64) -> None:
    """Records that a message came in, where it goes, and to which applications."""
    start = long_at(state, _LOG) + long_at(state, _LOG_AT)
    _put_event(state, start, 4 + HEADER_LENGTH + body)
    content = start + _EVENT
    put_int(content, 0, load_u32(frame + SOURCE + 2))
    memcpy(content + 4, frame + ETHERNET, HEADER_LENGTH + body)
    answer = content + 4 + HEADER_LENGTH + body
    at = answer + _RECORD
    if bits:
        put_byte(at, 0, FORWARD)
        at = _put_ports(page, bits, at + 1)
    _end(state, start, FRAME_RECEIVED, answer, _put_delivery(state, frame, chosen, at))


@callee
def log_request(
    state: Address,
    app: Address,
    text: Address,
    length: I64,
    frame: Address,
    body: I64,
    page: I64,
    bits: I64,
    chosen: I64,
) -> None:
    """Records that an application sent a message, with its attributes as text, and as `log_message`."""
    start = long_at(state, _LOG) + long_at(state, _LOG_AT)
    _put_event(state, start, _APP + 2 + length)
    content = start + _EVENT
    put_int(content, 0, long_at(app, APP_NUMBER))
    put_byte(content, _APP, ord("{"))
    memcpy(content + _APP + 1, text, length)
    put_byte(content, _APP + 1 + length, ord("}"))
    answer = content + _APP + 2 + length
    at = answer + _RECORD
    put_byte(at, 0, ACCEPTED)
    put_int(at + 1, 0, long_at(app, APP_NUMBER))
    put_int(at + _SOURCE_ACCEPTED, 0, load_u32(frame + _ISSUER))
    put_long(at + _SOURCE_ACCEPTED + _NUMBER, 0, load_u64(frame + _SEQ))
    at += _ACCEPTED
    if bits:
        put_byte(at, 0, SEND)
        at = _put_ports(page, bits, at + 1)
        put_int(at, 0, HEADER_LENGTH + body)
        memcpy(at + _LENGTH, frame + ETHERNET, HEADER_LENGTH + body)
        at += _LENGTH + HEADER_LENGTH + body
    _end(state, start, SEND_MESSAGE, answer, _put_delivery(state, frame, chosen, at))


@callee
def _put_event(state: Address, start: Address, content: I64) -> None:
    put_int(start + LENGTH_AT, 0, TIME_BYTES + content)
    put_long(start + TIME_AT, 0, long_at(state, _NOW))


@callee
def _put_ports(page: I64, bits: I64, at: Address) -> Address:
    ports = 0
    for bit in range(PORTS_PER_PAGE):
        if bits >> bit & 1:
            put_short(at + _COUNT, ports, PORTS_PER_PAGE * page + bit + 1)
            ports += 1
    put_short(at, 0, ports)
    return at + _COUNT + _PORT * ports


@callee
def _put_delivery(state: Address, frame: Address, chosen: I64, at: Address) -> Address:
    if not chosen:
        return at
    put_byte(at, 0, DELIVER)
    put_int(at + _SOURCE_DELIVERED, 0, load_u32(frame + _ISSUER))
    put_long(at + _SOURCE_DELIVERED + _NUMBER, 0, load_u64(frame + _SEQ))
    at += _DELIVERED
    put_short(at, 0, chosen)
    for number in range(chosen):
        put_int(at + _COUNT, number, long_at(long_at(long_at(state, _CHOSEN), number), APP_NUMBER))
    return at + _COUNT + _APP * chosen


@callee
def _end(state: Address, start: Address, event: I64, answer: Address, end: Address) -> None:
    put_byte(answer, 0, ACTIONS)
    put_int(answer + LENGTH_AT, 0, end - answer - _RECORD)
    # Last, so that the records count all or not at all if the process is killed.
    put_byte(start, 0, event)
    put_long(state, _LOG_AT, end - long_at(state, _LOG))
