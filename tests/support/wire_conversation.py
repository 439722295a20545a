"""Frames of routers and the controller, as a capture has them."""

from __future__ import annotations

from router.wire.frames import Body, Flags, Frame, FrameType
from router.wire.header import (
    CONTROLLER_DESTINATION,
    CONTROLLER_SOURCE,
    ROUTER_DESTINATION,
    node_address,
    port_addresses,
)
from tests.support.whole_frames import encode
from tests.support.wire_tshark import ethernet

#: Nanoseconds.
MS = 10**6
PORT_1 = port_addresses([1])[0]


def frame(kind: FrameType, issuer: int, seq: int, body: Body, flags: Flags = Flags.NONE) -> bytes:
    return encode(Frame(kind, issuer, seq, 1, 64, body, flags))


def of_router(node: int, payload: bytes) -> bytes:
    return ethernet(node_address(node), PORT_1, payload)


def to_controller(node: int, payload: bytes) -> bytes:
    return ethernet(node_address(node), CONTROLLER_DESTINATION, payload)


def of_controller(payload: bytes) -> bytes:
    return ethernet(CONTROLLER_SOURCE, ROUTER_DESTINATION, payload)
