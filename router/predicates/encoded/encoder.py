"""Encoding under a key: B_f of filters, B_m of messages, and their one-sided hardening.

A digest of 64 bytes (BLAKE2b under the key) stands for each string; its first k words of 32 bits, modulo m,
are the positions of k bits. The bias of the modulo is below 2^-20 for the m permitted.

Noise is one-sided: a filter may lose bits, and a message may gain bits. Both only widen what matches.
"""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from router.predicates import Filter, Message, Predicate
from router.predicates.encoded import HASHES_MAX, BloomFilter, BloomPredicate, Suite
from router.predicates.encoded.algebra import minimal
from router.predicates.encoded.encodings import Encoding

_PERSON = b"cbcb-bloom"
_WORDS = struct.Struct(f"<{HASHES_MAX}I")
#: Strings whose bits are remembered.
_REMEMBERED = 65_536
KEY_BYTES_MAX = hashlib.blake2b.MAX_KEY_SIZE


class StringHash:
    """B(x) for strings x.

    Args:
        suite: m and k.
        key: 16 to 64 bytes, secret.
        kept: how many of the k bits of each string are kept (k' of the hardening); 0: all.
        secret: chooses the bits that are kept, 16 to 64 bytes; needed if `kept` is.

    Raises:
        ValueError: the key or the secret has another length, or `kept` exceeds k.
    """

    def __init__(self, suite: Suite, key: bytes, kept: int = 0, secret: bytes = b"") -> None:
        for what, given in (("key", key), ("secret", secret if kept else key)):
            if not 16 <= len(given) <= KEY_BYTES_MAX:
                raise ValueError(f"{what} of {len(given)} bytes; expected 16 to {KEY_BYTES_MAX}")
        if not 0 <= kept <= suite.hashes:
            raise ValueError(f"{kept} of {suite.hashes} bits kept; expected 0 (all) to {suite.hashes}")
        self.suite = suite
        # The block of the key is hashed once, not for each string.
        self._keyed = hashlib.blake2b(key=key, person=_PERSON)
        self._words = struct.Struct(f"<{suite.hashes}I")
        self._secret = secret
        self._kept = kept
        self.bits_of = lru_cache(_REMEMBERED)(self._bits_of)

    def set_of(self, strings: Iterable[bytes]) -> int:
        """B(S): the union of the bits of each string."""
        bits_of = self.bits_of
        found = 0
        for string in strings:
            found |= bits_of(string)
        return found

    def _bits_of(self, string: bytes) -> int:
        keyed = self._keyed.copy()
        keyed.update(string)
        length = self.suite.bits
        words = self._words.unpack_from(keyed.digest())
        if self._kept:
            chosen = [word % length for word in words]
            ranks = _WORDS.unpack(hashlib.blake2b(string, key=self._secret, person=_PERSON).digest())
            ranked = dict.fromkeys(
                chosen[index] for index in sorted(range(len(chosen)), key=ranks.__getitem__)
            )
            words = tuple(ranked)[: self._kept]
        found = 0
        for word in words:
            found |= 1 << word % length
        return found


@dataclass(frozen=True, slots=True)
class Hardening:
    """The means by which an encoding reveals less.

    Attributes:
        kept_hashes: k': a subscriber keeps a secret choice of so many of the k bits of each string, so that
            equal filters of two subscribers look different; 0: all k.
        fill: messages are filled with random bits up to this share of m, which hides the number of strings;
            0.0: none are added.

    Raises:
        ValueError: a number is out of range.
    """

    kept_hashes: int = 0
    fill: float = 0.0

    def __post_init__(self) -> None:
        if self.kept_hashes < 0 or not 0.0 <= self.fill < 1.0:
            raise ValueError(
                f"{self.kept_hashes} hashes kept, fill {self.fill}; expected 0 or more, and 0 to less than 1"
            )


NO_HARDENING = Hardening()


class Encoder:
    """Encodes predicates and messages for one key.

    Args:
        suite: the parameters; `suite.encoding` is the number of `encoding`.
        key: the secret that all members share, 16 to 64 bytes.
        encoding: makes sets of strings.
        hardening: of filters and messages.
        secret: of this subscriber, 16 to 64 bytes; needed if `hardening.kept_hashes` is.
        rng: the source of the bits that fill messages; None: the operating system's.

    Raises:
        ValueError: the suite names another encoding, or a key or secret has a wrong length.
    """

    def __init__(
        self,
        suite: Suite,
        key: bytes,
        encoding: Encoding,
        hardening: Hardening = NO_HARDENING,
        secret: bytes = b"",
        rng: random.Random | None = None,
    ) -> None:
        if suite.encoding != encoding.number:
            raise ValueError(f"suite with encoding {suite.encoding}; expected {encoding.number}")
        self.suite = suite
        self.encoding = encoding
        self._message_hash = StringHash(suite, key)
        self._filter_hash = self._message_hash
        if hardening.kept_hashes:
            self._filter_hash = StringHash(suite, key, hardening.kept_hashes, secret)
        self._least_weight = int(hardening.fill * suite.bits)
        self._rng = rng if rng is not None else random.SystemRandom()

    def filter(self, filter_: Filter) -> BloomFilter:
        """B_f."""
        return BloomFilter(self.suite, self._filter_hash.set_of(self.encoding.filter_strings(filter_)))

    def predicate(self, predicate: Predicate) -> BloomPredicate:
        """The minimal B_f of a predicate: an encoded filter that another one covers adds nothing."""
        return BloomPredicate(minimal(map(self.filter, predicate)))

    def message_bits(self, message: Message) -> int:
        """B_m, filled with random bits if the hardening demands it."""
        bits = self._message_hash.set_of(self.encoding.message_strings(message))
        missing = self._least_weight - bits.bit_count()
        if missing > 0:
            free = [position for position in range(self.suite.bits) if not bits >> position & 1]
            for position in self._rng.sample(free, missing):
                bits |= 1 << position
        return bits
