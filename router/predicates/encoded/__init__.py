"""Encoded predicates and messages, as routers without the key see them.

Source: slides, part IV. A filter is a set of bits B_f, a message a set of bits B_m and sealed content.
A message matches a filter if B_f is a subset of B_m and both were made under the same suite: under another
key the bits have another meaning.

A set of m bits is a Python integer below 2^m: bit i of the set is bit i of the integer. Its bytes, on the
wire and as rows of 64-bit words in an engine, are in little-endian order (`row`): bit i is bit i mod 64 of
word i div 64.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from router.predicates import Filter, Message, Predicate

#: Greatest m. A set of bits is whole octets: m is a multiple of 8.
BITS_MAX = 4096
#: Greatest k: a digest of BLAKE2b has 16 words of 32 bits.
HASHES_MAX = 16


def check_bits(bits: int) -> None:
    """Raises ValueError: m is not a multiple of 8 from 8 to `BITS_MAX`."""
    if not 8 <= bits <= BITS_MAX or bits % 8:
        raise ValueError(f"sets of {bits} bits; expected a multiple of 8 from 8 to {BITS_MAX}")


@dataclass(frozen=True, slots=True, order=True)
class Suite:
    """The parameters of an encoding, with the number of its key.

    Sets of bits of two suites are not comparable.

    Attributes:
        key_id: the number of the key, 1 to 2^32 - 1. 0 is in `ANY_SUITE` alone.
        bits: m, the length of a set in bits.
        hashes: k, the bits set for each string.
        encoding: the number of the encoding of constraints as strings (`encodings.Encoding`).

    Raises:
        ValueError: a number is out of range.
    """

    key_id: int
    bits: int
    hashes: int
    encoding: int

    def __post_init__(self) -> None:
        if not self.key_id:
            if self.bits or self.hashes or self.encoding:
                raise ValueError("key 0 stands for every key, with 0 bits, hashes and encoding")
            return
        if not 1 <= self.key_id < 1 << 32:
            raise ValueError(f"key {self.key_id}; expected 1 to {2**32 - 1}")
        check_bits(self.bits)
        if not 1 <= self.hashes <= HASHES_MAX:
            raise ValueError(f"{self.hashes} hash functions; expected 1 to {HASHES_MAX}")
        if not 1 <= self.encoding <= 255:
            raise ValueError(f"encoding {self.encoding}; expected 1 to 255")

    @property
    def octets(self) -> int:
        """The bytes of a set of bits."""
        return self.bits // 8

    def row(self, bits: int) -> bytes:
        """Returns a set of bits as m/8 bytes in little-endian order."""
        return bits.to_bytes(self.octets, "little")


#: The suite of the filter without bits that every message matches, whatever its suite.
ANY_SUITE = Suite(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """B_f of a filter.

    Raises:
        ValueError: a bit is at m or above.
    """

    suite: Suite
    bits: int

    def __post_init__(self) -> None:
        if not 0 <= self.bits < 1 << self.suite.bits:
            raise ValueError(f"a set of {self.bits.bit_length()} bits; at most {self.suite.bits}")

    def covers(self, other: BloomFilter | BloomMessage) -> bool:
        """Whether B_f is a subset of the other's bits, under one suite: exact.

        Then a message matches, and every message that matches another filter matches this one.
        """
        if self.suite != other.suite:
            return self.suite == ANY_SUITE
        return self.bits & other.bits == self.bits


#: The encoded filter that every encoded message matches.
ANY_FILTER = BloomFilter(ANY_SUITE, 0)


class BloomPredicate(Predicate):
    """A disjunction of encoded filters.

    The protocol moves it as it moves any predicate. Its filters are `BloomFilter`: code for plain filters
    fails on them.
    """

    __slots__ = ()

    def __init__(self, filters: Iterable[BloomFilter] = ()) -> None:
        super().__init__(cast(tuple[Filter, ...], tuple(filters)))

    @property
    def encoded(self) -> tuple[BloomFilter, ...]:
        return cast(tuple[BloomFilter, ...], self.filters)

    @property
    def unreadable(self) -> str | None:
        if not self.filters:
            return None
        return f"encoded, {len(self)} filter" + ("s" if len(self) > 1 else "")

    def matches(self, message: BloomMessage) -> bool:
        return any(filter_.covers(message) for filter_ in self.encoded)


#: The encoded address of a node that receives no message, and of one that receives every message.
ENCODED_NOTHING = BloomPredicate()
ENCODED_EVERYTHING = BloomPredicate((ANY_FILTER,))


class BloomMessage(Message):
    """B_m of a message, with its sealed content.

    Without the key it has no attribute that could be read: as a mapping it is empty.

    Attributes:
        suite: the suite of `bits`; never `ANY_SUITE`.
        bits: B_m.
        sealed: nonce and ciphertext of the attributes; routers pass them on.

    Raises:
        ValueError: a bit is at m or above, or the suite is `ANY_SUITE`.
    """

    __slots__ = ("bits", "sealed", "suite")

    def __init__(self, suite: Suite, bits: int, sealed: bytes = b"") -> None:
        super().__init__({})
        if suite == ANY_SUITE:
            raise ValueError("a message is encoded under one key; key 0 is for filters")
        if not 0 <= bits < 1 << suite.bits:
            raise ValueError(f"a set of {bits.bit_length()} bits; at most {suite.bits}")
        self.suite = suite
        self.bits = bits
        self.sealed = sealed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BloomMessage) and (self.suite, self.bits, self.sealed) == (
            other.suite,
            other.bits,
            other.sealed,
        )

    def __ne__(self, other: object) -> bool:
        # A dictionary has a comparison of its own for this operator.
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # as that of every message

    def __repr__(self) -> str:
        return f"BloomMessage({self.suite!r}, {self.bits:#x}, {self.sealed!r})"

    @property
    def unreadable(self) -> str | None:
        return f"encoded, key {self.suite.key_id}"

    @property
    def weight(self) -> int:
        """The number of bits set."""
        return self.bits.bit_count()
