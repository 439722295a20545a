"""Guards of routers and of a rogue, under keys of a test."""

from __future__ import annotations

from pathlib import Path

from router.privacy.keys import SECRET_BYTES, Key, KeyRing
from router.security.guard import Guard
from router.security.pairs import PairKeys
from router.security.windows import Windows
from router.wire.addresses import ETHERNET_HEADER_LENGTH, ETHERTYPE, node_address
from router.wire.codec import fragment
from router.wire.format import MESSAGES
from router.wire.frames import COUNTER_BITS, Frame
from router.wire.header import decode_header

INCARNATION = 7
RING = KeyRing((Key(7, bytes(range(SECRET_BYTES))),), 7)
#: Of somebody who knows all but the secret.
ROGUE = KeyRing((Key(7, bytes(SECRET_BYTES)),), 7)


def guard(
    address: bytes, ring: KeyRing = RING, incarnation: int = INCARNATION, windows: Path | None = None
) -> Guard:
    floor = INCARNATION << COUNTER_BITS
    return Guard(address, PairKeys(ring, address), incarnation, Windows(windows, floor))


def router_guard(node: int, ring: KeyRing = RING, incarnation: int = INCARNATION) -> Guard:
    return guard(node_address(node), ring, incarnation)


def head(destination: bytes, source: bytes) -> bytes:
    return destination + source + ETHERTYPE.to_bytes(2, "big")


def sealed(
    sender: Guard, destination: bytes, source: bytes, frame: Frame, receivers: list[bytes], mtu: int = 1500
) -> list[bytes]:
    """The Ethernet frames by which a sender with a guard sends a frame."""
    is_message = frame.type in MESSAGES
    return [
        sender.seal(head(destination, source), payload, receivers, message=is_message)
        for payload in fragment(frame, mtu - sender.room(len(receivers)))
    ]


def opened(receiver: Guard, data: bytes) -> bytes:
    """The payload that a receiver takes.

    Raises RefusedError: it does not.
    """
    return receiver.open(data, decode_header(data[ETHERNET_HEADER_LENGTH:]))
