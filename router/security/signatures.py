"""Signatures of issuers (Ed25519, RFC 8032): made by their owners, verified by all."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from router.wire.addresses import CONTROLLER
from router.wire.authentication import covered
from router.wire.codec import encode_body
from router.wire.format import MESSAGES, OF_CONTROLLER, REPLIES, SIGNED_TYPES
from router.wire.frames import Frame

#: Bytes of a key, private or public.
KEY_BYTES = 32


class Signer:
    """Signs what one router, or the controller, issues.

    Args:
        node: the router's, or `addresses.CONTROLLER`.
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
        floor: see `router.protocol.signatures.Verifier`.

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
        """Whether the signature of a frame is that of a node, or of `addresses.CONTROLLER`."""
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
