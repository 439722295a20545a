"""A member of a private network: an application that has the key.

It encodes its predicate and its messages, opens what its router delivers, and evaluates its exact predicate:
a router delivers what matches the encoding, which is more.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from router.predicates.encoded.algebra import union
from router.predicates.encoded.encoder import NO_HARDENING, Encoder, Hardening
from router.predicates.encoded.model import BloomMessage, BloomPredicate, Suite
from router.predicates.model import NOTHING, Message, Predicate
from router.predicates.semantics import matches
from router.privacy.keys import SECRET_BYTES, Key, KeyRing
from router.privacy.sealing import Opener, OpenError, ReplayError, Sealer, derived


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


@dataclass(frozen=True, slots=True)
class Opened:
    """A delivery that a member has opened.

    Attributes:
        message: the attributes; None if they could not be read.
        discarded: why the message is not for this member; None: it is.
    """

    message: Message | None
    discarded: Discard | None


class _KeyUse:
    """A key in use: its encoder, and the sealed content under it."""

    def __init__(
        self, key: Key, hardening: Hardening, secret: bytes, rng: random.Random | None, client: int | None
    ) -> None:
        self.encoding = key.parameters.make_encoding()
        self.suite = key.parameters.suite(key.key_id)
        self.encoder = Encoder(
            self.suite, derived(key.secret, "bloom"), self.encoding, hardening, secret, rng
        )
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
        discarded: messages discarded, by reason.
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
        self._predicate: Predicate = NOTHING
        self.discarded: Counter[Discard] = Counter()
        self.set_keys(ring)

    def set_keys(self, ring: KeyRing) -> None:
        """Uses other keys from now on; keys that stay keep their counters and windows.

        The predicate has to be advertised a second time if the set of keys has changed: `encoded`.
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

    def set_predicate(self, predicate: Predicate) -> BloomPredicate:
        """Takes the exact predicate; returns what the router is to have: its encoding under every key."""
        self._predicate = predicate
        return self.encoded

    @property
    def encoded(self) -> BloomPredicate:
        """The encoding of the predicate under every key."""
        return self.encode(self._predicate)

    def encode(self, predicate: Predicate) -> BloomPredicate:
        """The encoding of any predicate under every key."""
        return union(*(each.encoder.predicate(predicate) for each in self._keys.values()))

    def message(self, message: Message) -> BloomMessage:
        """Encodes and seals a message under the key of messages."""
        use = self._sending
        return use.sealer.seal(use.suite, use.encoder.message_bits(message), message)

    def open(self, message: BloomMessage) -> Opened:
        """Opens a message that the router delivered, and evaluates the exact predicate."""
        opened = self._open(message)
        if opened.discarded is not None:
            self.discarded[opened.discarded] += 1
        return opened

    def _open(self, message: BloomMessage) -> Opened:
        use = self._keys.get(message.suite)
        if use is None:
            return Opened(None, Discard.UNKNOWN_KEY)
        try:
            plain = use.opener.open(message)
        except ReplayError:
            return Opened(None, Discard.REPLAYED)
        except OpenError:
            return Opened(None, Discard.NOT_AUTHENTIC)
        if matches(self._predicate, plain):
            return Opened(plain, None)
        return Opened(plain, self._cause(use, plain, message))

    def _cause(self, use: _KeyUse, plain: Message, message: BloomMessage) -> Discard:
        """Why the router delivered a message that the exact predicate does not select."""
        strings = use.encoding.message_strings(plain)
        for filter_ in self._predicate:
            if use.encoding.filter_strings(filter_) <= strings:
                return Discard.OPERATOR
        return Discard.HASH if use.encoder.predicate(self._predicate).matches(message) else Discard.STALE
