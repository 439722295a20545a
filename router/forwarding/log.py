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
from router.recording.format import ACCEPTED, ACTIONS, DELIVER, FORWARD, FRAME_RECEIVED, SEND, SEND_MESSAGE
from router.wire.addresses import ETHERNET_HEADER_LENGTH as ETHERNET
from router.wire.addresses import PORTS_PER_PAGE
from router.wire.header import HEADER_LENGTH
from router.wire.layouts import HEADER_OFFSETS

_LOG, _LOG_AT, _NOW, _CHOSEN = int(State.LOG), int(State.LOG_AT), int(State.NOW), int(State.CHOSEN)
_ISSUER, _SEQ = (ETHERNET + HEADER_OFFSETS[name] for name in ("issuer", "seq"))


@callee
def log_message(state: Address, frame: Address, body: I64, page: I64, bits: I64, chosen: I64) -> None:
    """Records that a message came in, where it goes, and to which applications."""
    start = long_at(state, _LOG) + long_at(state, _LOG_AT)
    _put_event(state, start, 4 + HEADER_LENGTH + body)
    put_int(start + 13, 0, load_u32(frame + SOURCE + 2))
    memcpy(start + 17, frame + ETHERNET, HEADER_LENGTH + body)
    answer = start + 17 + HEADER_LENGTH + body
    at = answer + 5
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
    _put_event(state, start, 4 + 2 + length)
    put_int(start + 13, 0, long_at(app, APP_NUMBER))
    put_byte(start, 17, ord("{"))
    memcpy(start + 18, text, length)
    put_byte(start, 18 + length, ord("}"))
    answer = start + 19 + length
    at = answer + 5
    put_byte(at, 0, ACCEPTED)
    put_int(at + 1, 0, long_at(app, APP_NUMBER))
    put_int(at + 5, 0, load_u32(frame + _ISSUER))
    put_long(at + 9, 0, load_u64(frame + _SEQ))
    at += 17
    if bits:
        put_byte(at, 0, SEND)
        at = _put_ports(page, bits, at + 1)
        put_int(at, 0, HEADER_LENGTH + body)
        memcpy(at + 4, frame + ETHERNET, HEADER_LENGTH + body)
        at += 4 + HEADER_LENGTH + body
    _end(state, start, SEND_MESSAGE, answer, _put_delivery(state, frame, chosen, at))


@callee
def _put_event(state: Address, start: Address, content: I64) -> None:
    put_int(start + 1, 0, 8 + content)
    put_long(start + 5, 0, long_at(state, _NOW))


@callee
def _put_ports(page: I64, bits: I64, at: Address) -> Address:
    ports = 0
    for bit in range(PORTS_PER_PAGE):
        if bits >> bit & 1:
            put_short(at + 2, ports, PORTS_PER_PAGE * page + bit + 1)
            ports += 1
    put_short(at, 0, ports)
    return at + 2 + 2 * ports


@callee
def _put_delivery(state: Address, frame: Address, chosen: I64, at: Address) -> Address:
    if not chosen:
        return at
    put_byte(at, 0, DELIVER)
    put_int(at + 1, 0, load_u32(frame + _ISSUER))
    put_long(at + 5, 0, load_u64(frame + _SEQ))
    put_short(at + 13, 0, chosen)
    for number in range(chosen):
        put_int(at + 15, number, long_at(long_at(long_at(state, _CHOSEN), number), APP_NUMBER))
    return at + 15 + 4 * chosen


@callee
def _end(state: Address, start: Address, event: I64, answer: Address, end: Address) -> None:
    put_byte(answer, 0, ACTIONS)
    put_int(answer + 1, 0, end - answer - 5)
    # Last, so that the records count all or not at all if the process is killed.
    put_byte(start, 0, event)
    put_long(state, _LOG_AT, end - long_at(state, _LOG))
