"""Encoding under a key: B_f of filters, B_m of messages, and their one-sided hardening.

Noise is one-sided: a filter may lose bits, and a message may gain bits. Both only widen what matches.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from router.predicates.encoded.algebra import minimal
from router.predicates.encoded.encodings import Encoding
from router.predicates.encoded.hashing import StringHash
from router.predicates.encoded.model import BloomFilter, BloomPredicate, Suite
from router.predicates.model import Filter, Message, Predicate


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
