"""Guards of routers and of a rogue, under keys of a test."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path

from router.privacy import SECRET_BYTES, Key, KeyRing, write_keys
from router.security.guard import Guard
from router.security.pairs import PairKeys, Windows
from router.security.signatures import Signer, public_key
from router.wire.authentication import covered
from router.wire.frames import COUNTER_BITS, Frame
from router.wire.header import (
    CONTROLLER,
    ETHERNET_HEADER_LENGTH,
    ETHERTYPE,
    decode_header,
    node_address,
    node_of,
)

INCARNATION = 7
RING = KeyRing((Key(7, bytes(range(SECRET_BYTES))),), 7)
#: Of somebody who knows all but the secret.
ROGUE = KeyRing((Key(7, bytes(SECRET_BYTES)),), 7)
_FOLDER = tempfile.TemporaryDirectory()


def private_key(node: int) -> bytes:
    """The signing key of a node, or of the controller (`header.CONTROLLER`)."""
    return sha256(f"node {node}".encode()).digest()


@cache
def public_keys() -> bytes:
    """The public keys of the controller and of nodes 0 to 31."""
    return b"".join(public_key(private_key(node)) for node in (CONTROLLER, *range(32)))


def rogue_signed(node: int, frame: Frame) -> Frame:
    """The frame, whosever it is, with a signature by the key of a node."""
    return replace(frame, signature=Signer(node, private_key(node))._key.sign(covered(frame)))


@cache
def _key_file(ring: KeyRing) -> Path:
    path = Path(tempfile.mkdtemp(dir=_FOLDER.name)) / "keys"
    write_keys(path, ring)
    return path


def guard(
    address: bytes,
    ring: KeyRing = RING,
    incarnation: int = INCARNATION,
    windows: Path | None = None,
    signs: bool = False,
) -> Guard:
    floor = INCARNATION << COUNTER_BITS
    node = node_of(address)
    owner = CONTROLLER if node is None else node
    signer = Signer(owner, private_key(owner)) if signs else None
    return Guard(address, PairKeys(_key_file(ring), address), incarnation, Windows(windows, floor), signer)


def router_guard(
    node: int, ring: KeyRing = RING, incarnation: int = INCARNATION, signs: bool = False
) -> Guard:
    return guard(node_address(node), ring, incarnation, signs=signs)


def head(destination: bytes, source: bytes) -> bytes:
    return destination + source + ETHERTYPE.to_bytes(2, "big")


def sealed(
    sender: Guard, destination: bytes, source: bytes, frame: Frame, receivers: list[bytes], mtu: int = 1500
) -> list[bytes]:
    return sender.frames(head(destination, source), sender.signed(frame), receivers, mtu)


def opened(receiver: Guard, data: bytes) -> bytes:
    """The payload that a receiver takes.

    Raises RefusedError: it does not.
    """
    return receiver.open(data, decode_header(data[ETHERNET_HEADER_LENGTH:]))
