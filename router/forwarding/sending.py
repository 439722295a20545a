"""Frames to send: their addresses, and the call that sends all of a batch.

`state` is the address of the row of a router (`layout.State`), `frame` that of an Ethernet frame.
"""

from __future__ import annotations

from socket import MSG_DONTWAIT

from router.forwarding.compiler import callee
from router.forwarding.layout import State
from router.forwarding.row import add
from router.native.compiler import I64, Address
from router.native.memory import long_at, put_byte, put_long
from router.native.system import memcpy, sendmmsg
from router.wire.addresses import ETHERNET_HEADER_LENGTH as ETHERNET
from router.wire.addresses import ETHERTYPE
from router.wire.header import HEADER_LENGTH

_SOCKET, _ADDRESS = int(State.SOCKET), int(State.ADDRESS)
_HEADERS_OUT, _PIECES_OUT = int(State.HEADERS_OUT), int(State.PIECES_OUT)
_OUT, _SENT, _HOLD = int(State.OUT), int(State.SENT), int(State.HOLD)
_FRAMES_SENT, _BYTES_SENT = int(State.FRAMES_SENT), int(State.BYTES_SENT)
_SEND_FLAGS = int(MSG_DONTWAIT)
#: Offset of the source address in an Ethernet frame.
SOURCE = 6


@callee
def add_frame(state: Address, frame: Address, body: I64, page: I64, bits: I64) -> None:
    """Writes the addresses of a frame in its buffer, and adds it to the frames to send."""
    put_byte(frame, 0, 3)
    put_byte(frame, 1, page)
    for place in range(4):
        put_byte(frame, 2 + place, bits >> (24 - 8 * place))
    memcpy(frame + SOURCE, state + 8 * _ADDRESS, 6)
    put_byte(frame, 12, ETHERTYPE >> 8)
    put_byte(frame, 13, ETHERTYPE & 0xFF)
    piece = long_at(state, _PIECES_OUT) + 16 * long_at(state, _OUT)
    put_long(piece, 0, frame)
    # Without the padding of the frame that came in.
    put_long(piece, 1, ETHERNET + HEADER_LENGTH + body)
    add(state, _OUT, 1)


@callee
def send_frames(state: Address) -> None:
    """Sends as many of the frames as the socket takes, unless the caller is to send them."""
    out = long_at(state, _OUT)
    if out == 0 or long_at(state, _HOLD):
        return
    sent = sendmmsg(long_at(state, _SOCKET), long_at(state, _HEADERS_OUT), out, _SEND_FLAGS)
    sent = max(0, sent)
    put_long(state, _SENT, sent)
    add(state, _FRAMES_SENT, sent)
    pieces, total = long_at(state, _PIECES_OUT), 0
    for piece in range(sent):
        total += long_at(pieces, 2 * piece + 1)
    add(state, _BYTES_SENT, total)
