"""A member of a private network, an application that has the key; and sealed content.

It encodes its predicate and its messages, opens what its router delivers, and evaluates its exact predicate:
a router delivers what matches the encoding, which is more.

Sealed content is the attributes of a message, sealed by ChaCha20-Poly1305 (RFC 8439) under a key of the
sender ("Keys" in docs/explanation/privacy.md). The nonce is the sender's number (4 bytes) and a counter (8
bytes) that begins anywhere, so that two senders who draw the same number hardly ever have a nonce in common;
associated data are the suite and B_m, so that sealed content cannot be moved to another encoding.
"""

from __future__ import annotations

import random
import struct
from enum import StrEnum
from functools import lru_cache, partial

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from router.predicates import NOTHING, Message, Predicate, matches
from router.predicates.encoded import BloomMessage, BloomPredicate, Suite
from router.predicates.encoded.algebra import union
from router.predicates.encoded.encoder import NO_HARDENING, Encoder, Hardening
from router.privacy import SECRET_BYTES, Key, KeyRing
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


def derived(secret: bytes, purpose: bytes) -> bytes:
    """A key for one purpose, derived from a secret by HKDF."""
    key: bytes = HKDF(SHA256(), _KEY_BYTES, salt=None, info=b"cbcb " + purpose).derive(secret)
    return key


def _associated(suite: Suite, bits: int) -> bytes:
    return _SUITE.pack(suite.key_id, suite.bits, suite.hashes, suite.encoding) + suite.row(bits)


def _cipher(secret: bytes, client: int) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(derived(secret, b"content %08x" % client))


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
        self._cipher = _cipher(secret, self.client)
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
        self._cipher_of = lru_cache(SENDERS_MAX)(partial(_cipher, secret))
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
            data = self._cipher_of(client).decrypt(
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


class Discard(StrEnum):
    """Why a member discards a message that its router delivered."""

    #: The strings of a filter are among those of the message: the encoding keeps less than the operators say.
    OPERATOR = "operator"
    #: The bits of a filter are among those of the message, and the strings are not.
    HASH = "hash"
    #: The predicate has changed since the router matched the message, or the filter is not this member's.
    STALE = "stale"
    #: The message is under a key that this member does not have.
    UNKNOWN_KEY = "unknown_key"
    #: It is not authentic, or malformed.
    NOT_AUTHENTIC = "not_authentic"
    #: It was received before.
    REPLAYED = "replayed"


class _KeyUse:
    """A key in use: its encoder, and the sealed content under it."""

    def __init__(
        self, key: Key, hardening: Hardening, secret: bytes, rng: random.Random | None, client: int | None
    ) -> None:
        suite, encoding = key.parameters.suite(key.key_id), key.parameters.make_encoding()
        self.encoder = Encoder(suite, derived(key.secret, b"bloom"), encoding, hardening, secret, rng)
        self.sealer = Sealer(key.secret, rng, client)
        self.opener = Opener(key.secret)


class Member:
    """The client side of private matching for one application.

    Args:
        ring: the keys.
        hardening: of filters and messages.
        rng: the source of the client's number, its secret and random bits; None: the operating system's.
        client: see `Sealer`.

    Attributes:
        predicate: the exact predicate. The router is to have its encoding (`encode`).
    """

    def __init__(
        self,
        ring: KeyRing,
        hardening: Hardening = NO_HARDENING,
        rng: random.Random | None = None,
        client: int | None = None,
    ) -> None:
        self._client = client
        self._hardening = hardening
        self._rng = rng
        self._secret = (rng or random.SystemRandom()).randbytes(SECRET_BYTES)
        self._keys: dict[Suite, _KeyUse] = {}
        self.predicate: Predicate = NOTHING
        self.set_keys(ring)

    def set_keys(self, ring: KeyRing) -> None:
        """Uses other keys from now on; keys that stay keep their counters and windows.

        The predicate has to be advertised a second time if the set of keys has changed.
        """
        keys: dict[Suite, _KeyUse] = {}
        for key in ring.keys:
            suite = key.parameters.suite(key.key_id)
            known = self._keys.get(suite)
            keys[suite] = known or _KeyUse(key, self._hardening, self._secret, self._rng, self._client)
            if key.key_id == ring.sending:
                self._sending = keys[suite]
        self._keys = keys

    @property
    def suites(self) -> frozenset[Suite]:
        """The suites under which this member receives."""
        return frozenset(self._keys)

    def encode(self, predicate: Predicate) -> BloomPredicate:
        """The encoding of any predicate under every key."""
        return union(*(each.encoder.predicate(predicate) for each in self._keys.values()))

    def message(self, message: Message) -> BloomMessage:
        """Encodes and seals a message under the key of messages."""
        use = self._sending
        return use.sealer.seal(use.encoder.suite, use.encoder.message_bits(message), message)

    def open(self, message: BloomMessage) -> Message | Discard:
        """Opens a message that the router delivered, and evaluates the exact predicate.

        Returns:
            The attributes, or why the message is not for this member.
        """
        use = self._keys.get(message.suite)
        if use is None:
            return Discard.UNKNOWN_KEY
        try:
            plain = use.opener.open(message)
        except ReplayError:
            return Discard.REPLAYED
        except OpenError:
            return Discard.NOT_AUTHENTIC
        return plain if matches(self.predicate, plain) else self._cause(use, plain, message)

    def _cause(self, use: _KeyUse, plain: Message, message: BloomMessage) -> Discard:
        """Why the router delivered a message that the exact predicate does not select."""
        encoding = use.encoder.encoding
        strings = encoding.message_strings(plain)
        for filter_ in self.predicate:
            if encoding.filter_strings(filter_) <= strings:
                return Discard.OPERATOR
        return Discard.HASH if use.encoder.predicate(self.predicate).matches(message) else Discard.STALE
