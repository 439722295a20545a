"""Sealed content: the attributes of a message, encrypted and authenticated for the members.

ChaCha20-Poly1305 (RFC 8439) under a key of the sender, which HKDF-SHA-256 (RFC 5869) derives from the
members' secret and the sender's number. The nonce is the sender's number (4 bytes) and a counter (8 bytes)
that begins anywhere, so that two senders who draw the same number hardly ever have a nonce in common;
associated data are the suite and B_m, so that sealed content cannot be moved to another encoding.
"""

from __future__ import annotations

import random
import struct
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from router.predicates.encoded.model import BloomMessage, Suite
from router.predicates.model import Message
from router.wire.authentication import advanced
from router.wire.header import DecodeError
from router.wire.message import decode_message, encode_message

_NONCE = struct.Struct("!IQ")
_SUITE = struct.Struct("!IHBB")
_KEY_BYTES = 32
#: Senders whose keys and windows are remembered.
SENDERS_MAX = 65_536


class OpenError(ValueError):
    """Sealed content that does not open: it is not of a member, was changed, or is malformed."""


class ReplayError(OpenError):
    """Sealed content that was opened before, or is too old to know."""


def derived(secret: bytes, purpose: str) -> bytes:
    """A key for one purpose, derived from a secret by HKDF."""
    key: bytes = HKDF(SHA256(), _KEY_BYTES, salt=None, info=f"cbcb {purpose}".encode()).derive(secret)
    return key


def _associated(suite: Suite, bits: int) -> bytes:
    return _SUITE.pack(suite.key_id, suite.bits, suite.hashes, suite.encoding) + bits.to_bytes(
        suite.octets, "little"
    )


class _Ciphers:
    """The ciphers of senders under one secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.of = lru_cache(SENDERS_MAX)(self._cipher)

    def _cipher(self, client: int) -> ChaCha20Poly1305:
        return ChaCha20Poly1305(derived(self._secret, f"content {client:08x}"))


class Sealer:
    """Seals the messages of one client.

    Args:
        secret: the members'.
        rng: draws the client's number and the begin of its counter; None: the operating system's source.
        client: the client's number, where the caller ensures that no two are equal, and the counter begins at
            1 unless the source is the operating system's; None: it is drawn.

    Attributes:
        client: the client's number. It is drawn when the client starts: one that restarts is another client.
    """

    def __init__(self, secret: bytes, rng: random.Random | None = None, client: int | None = None) -> None:
        source = rng or random.SystemRandom()
        self.client = source.getrandbits(32) if client is None else client
        self._cipher = _Ciphers(secret).of(self.client)
        self._counter = source.getrandbits(63) if rng is None or client is None else 0

    def seal(self, suite: Suite, bits: int, message: Message) -> BloomMessage:
        """The private message with these attributes."""
        self._counter += 1
        nonce = _NONCE.pack(self.client, self._counter)
        sealed = self._cipher.encrypt(nonce, encode_message(message), _associated(suite, bits))
        return BloomMessage(suite, bits, nonce + sealed)


class Opener:
    """Opens the messages of all members under one secret."""

    def __init__(self, secret: bytes) -> None:
        self._ciphers = _Ciphers(secret)
        #: Client -> greatest number and bits of its window (`router.wire.authentication.advanced`).
        self._windows: dict[int, tuple[int, int]] = {}

    def open(self, message: BloomMessage) -> Message:
        """The attributes of a private message.

        Raises:
            ReplayError: the message was opened before, or its number is below the window.
            OpenError: it is not authentic, or what was sealed is no message.
        """
        if len(message.sealed) < _NONCE.size:
            raise OpenError(f"sealed content of {len(message.sealed)} bytes")
        client, counter = _NONCE.unpack_from(message.sealed)
        nonce, ciphertext = message.sealed[: _NONCE.size], message.sealed[_NONCE.size :]
        try:
            data = self._ciphers.of(client).decrypt(
                nonce, ciphertext, _associated(message.suite, message.bits)
            )
        except InvalidTag:
            raise OpenError("the message is not authentic") from None
        # After authentication: nobody but a member can move a window.
        window = advanced(*self._windows.get(client, (-1, 0)), counter)
        if window is None:
            raise ReplayError(f"message {counter} of client {client:08x} was received before, or is too old")
        if client not in self._windows and len(self._windows) >= SENDERS_MAX:
            # The window of the client that sent first goes: nobody protects members from members.
            del self._windows[next(iter(self._windows))]
        self._windows[client] = window
        try:
            return decode_message(data)
        except DecodeError as error:
            raise OpenError(f"sealed content that is no message: {error}") from error
