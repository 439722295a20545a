"""The records of what compiled code did, as `router.recording.file.Recorder` writes them.

`state` is the address of the row of a router (`layout.State`), `frame` that of an Ethernet frame.
"""

from __future__ import annotations

from router.forwarding.compiler import callee
from router.forwarding.layout import State
from router.forwarding.sending import SOURCE
from router.native.compiler import I64, Address
from router.native.memory import (
    load_u32,
    long_at,
    put_byte,
    put_int,
    put_long,
    put_short,
)
from router.native.system import memcpy
from router.recording.format import (
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
from router.wire.addresses import ETHERNET_HEADER_LENGTH as ETHERNET
from router.wire.addresses import PORTS_PER_PAGE
from router.wire.header import HEADER_LENGTH

_LOG, _LOG_AT, _NOW = int(State.LOG), int(State.LOG_AT), int(State.NOW)
#: Bytes of the parts of a record.
_RECORD, _EVENT, _PORT, _COUNT = RECORD.size, EVENT.size, INTERFACE.size, COUNT.size


@callee
def log_message(state: Address, frame: Address, body: I64, page: I64, bits: I64) -> None:
    """Records that a message came in, and where it goes."""
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
    _end(state, start, FRAME_RECEIVED, answer, at)


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
def _end(state: Address, start: Address, event: I64, answer: Address, end: Address) -> None:
    put_byte(answer, 0, ACTIONS)
    put_int(answer + LENGTH_AT, 0, end - answer - _RECORD)
    # Last, so that the records count all or not at all if the process is killed.
    put_byte(start, 0, event)
    put_long(state, _LOG_AT, end - long_at(state, _LOG))
