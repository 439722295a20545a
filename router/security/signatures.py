"""Signatures of issuers (Ed25519, RFC 8032): made by their owners, verified by all.

The signing keys of a network are in a folder. `controller.key` and `<node>.key` have a private key in hex,
readable and writable by their owner alone; `public.keys` has a line for each public key in hex: the
controller's, then those of the nodes from 0 on.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from router.privacy import KeyFileError, read_secret, write_secret
from router.privacy.member import derived
from router.wire.authentication import covered
from router.wire.codec import encode_body
from router.wire.format import MESSAGES, OF_CONTROLLER, REPLIES, SIGNED_TYPES
from router.wire.frames import Frame
from router.wire.header import CONTROLLER

#: Bytes of a key, private or public.
KEY_BYTES = 32


class Signer:
    """Signs what one router, or the controller, issues.

    Args:
        node: the router's, or `header.CONTROLLER`.
        private: its private key.
    """

    def __init__(self, node: int, private: bytes) -> None:
        self._node = node
        self._key = Ed25519PrivateKey.from_private_bytes(private)

    def signed(self, frame: Frame) -> Frame:
        """The frame with a signature, if it is this sender's to sign and has none.

        Raises:
            ValueError: the frame is outside the format.
        """
        if frame.signature or frame.type not in SIGNED_TYPES or not self._issues(frame):
            return frame
        signature = self._key.sign(covered(frame))
        # What receivers verify is what they received.
        body = None if frame.type in MESSAGES else encode_body(frame)
        return replace(frame, signature=signature, received=body)

    def _issues(self, frame: Frame) -> bool:
        if frame.type in OF_CONTROLLER:
            return self._node == CONTROLLER
        return frame.type in REPLIES or frame.issuer == self._node


class PublicKeys:
    """The public keys of the controller and of the nodes from 0 on.

    Args:
        keys: one behind the other, the controller's first.
        floor: see `router.protocol.core.layers.Verifier`.

    Raises:
        ValueError: the length is none of such keys.
    """

    def __init__(self, keys: bytes, floor: int = 0) -> None:
        if not keys or len(keys) % KEY_BYTES:
            raise ValueError(f"public keys of {len(keys)} bytes; expected a multiple of {KEY_BYTES}")
        self.floor = floor
        self._keys = keys
        self._key = lru_cache(len(keys) // KEY_BYTES)(self._made)

    def stands(self, frame: Frame, signer: int) -> bool:
        """Whether the signature of a frame is that of a node, or of `header.CONTROLLER`."""
        at = (0 if signer == CONTROLLER else signer + 1) * KEY_BYTES
        if not 0 <= at < len(self._keys):
            return False
        try:
            self._key(at).verify(frame.signature, covered(frame))
        except (InvalidSignature, ValueError):
            return False
        return True

    def _made(self, at: int) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(self._keys[at : at + KEY_BYTES])


def public_key(private: bytes) -> bytes:
    """The public key that belongs to a private one."""
    return bytes(Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw())


_PUBLIC = "public.keys"


def make_signing_keys(
    folder: Path, nodes: int, random_bytes: Callable[[int], bytes] = secrets.token_bytes
) -> None:
    """Makes the keys of a controller and of the nodes from 0 on, in a folder that does not exist.

    Args:
        random_bytes: the source of secrets; the operating system's, unless a run must be repeatable.

    Raises:
        OSError: the folder exists, or cannot be written.
    """
    folder.mkdir(mode=0o700)
    public = []
    for owner in (CONTROLLER, *range(nodes)):
        private = random_bytes(KEY_BYTES)
        write_secret(folder / _name(owner), f"{private.hex()}\n".encode())
        public.append(public_key(private).hex())
    (folder / _PUBLIC).write_text("\n".join(public) + "\n")


def read_signer(folder: Path, owner: int) -> Signer:
    """The signer of a node, or of `header.CONTROLLER`.

    Raises:
        KeyFileError: the file of its key is missing, is open to others than its owner, or has another form.
    """
    return Signer(owner, _key_of(folder / _name(owner)))


def read_public_keys(folder: Path) -> bytes:
    """The public keys, as `router.security.signatures.PublicKeys` takes them.

    Raises:
        KeyFileError: the file is missing, or has another form.
    """
    path = folder / _PUBLIC
    try:
        return b"".join(map(_key, path.read_text().split()))
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise _no_key_file(path, error) from error


def derive_signing_keys(source: Path, folder: Path, nodes: int, identity: str) -> None:
    """Derives the keys of one run for a controller and the nodes from 0 on, in a folder that does not exist.

    Args:
        identity: of the run: keys of different runs differ.

    Raises:
        KeyFileError: a file of the source cannot be used; names it.
        OSError: the folder exists, or cannot be written.
    """
    private = [_key_of(source / _name(owner)) for owner in (CONTROLLER, *range(nodes))]
    public = read_public_keys(source)
    if public[: KEY_BYTES * len(private)] != b"".join(map(public_key, private)):
        raise KeyFileError(f"{source / _PUBLIC}: not the public keys of the private keys beside it")
    keys = (derived(key, f"signing {identity}".encode()) for key in private)
    make_signing_keys(folder, nodes, lambda _: next(keys))


def _name(owner: int) -> str:
    return "controller.key" if owner == CONTROLLER else f"{owner}.key"


def _key_of(path: Path) -> bytes:
    try:
        return _key(read_secret(path).decode())
    except ValueError as error:
        raise _no_key_file(path, error) from error


def _key(text: str) -> bytes:
    key = bytes.fromhex(text)
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key of {len(key)} bytes; expected {KEY_BYTES}")
    return key


def _no_key_file(path: Path, error: ValueError) -> KeyFileError:
    return error if isinstance(error, KeyFileError) else KeyFileError(f"{path}: no key: {error}")
