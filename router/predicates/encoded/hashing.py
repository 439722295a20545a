"""Keyed hashing of strings to bits.

BLAKE2b under the key gives a digest of 64 bytes for each string; its first k words of 32 bits, modulo m, are
the positions of k bits. The bias of the modulo is below 2^-20 for the m permitted.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from functools import lru_cache

from router.predicates.encoded.model import HASHES_MAX, Suite

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
        self._powers = _powers(suite.bits)
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
        powers = self._powers
        length = len(powers)
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
            found |= powers[word % length]
        return found


@lru_cache(8)
def _powers(bits: int) -> tuple[int, ...]:
    """The set of each bit alone."""
    return tuple(1 << position for position in range(bits))
