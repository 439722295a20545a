"""Hashes of byte strings and of their substrings, under numbers that each process draws for itself.

The hash of a string begins with a polynomial modulo 2^31 - 1 at a random place (Karp and Rabin, 1987): that
of any substring follows from those of two prefixes by one multiplication. The polynomials of two different
strings of n bytes are equal at n places at most, so nobody can choose filters whose hashes collide without
knowing the place. Modulo 2^64, some strings would collide at every place. Every match of hashes is verified
byte by byte: answers do not depend on the place.

Functions take the address of `SEED`, or a number of it.
"""

from __future__ import annotations

import secrets
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from router.matching.compiled.layout import callee, kernel
from router.native.compiler import I64, Address
from router.native.memory import address_of, long_at


class Seed(IntEnum):
    """Elements of `SEED` (int64)."""

    BASE = 0  # the place of the polynomials, greater than a byte
    FACTOR = 1  # odd
    SUMMAND = 2


_PRIME, _BITS = 2**31 - 1, 31
_BASE, _FACTOR, _SUMMAND = int(Seed.BASE), int(Seed.FACTOR), int(Seed.SUMMAND)
# Computed with unsigned numbers: overflow of signed numbers is undefined in compiled code.
#: The constants of the finalizer of MurmurHash3.
_MIX_1, _MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
#: Arbitrary odd numbers, with about half of their bits set.
_PER_LENGTH, _PER_KIND = np.uint64(0x165667B19E3779F9), np.uint64(0x27D4EB2F165667C5)
_HALF = np.uint64(33)
#: The most bytes of a string (`model.STRING_MAX_BYTES`).
_LONGEST = 65_535


def drawn_seed() -> npt.NDArray[np.int64]:
    """Returns a new seed: int64 [3]."""
    base = secrets.randbelow(_PRIME - 512) + 257
    return np.array([base, secrets.randbits(64) | 1, secrets.randbits(64)], np.uint64).view(np.int64)


#: The seed of this process and those that it forks. A table is valid under the seed that it was made with.
SEED = drawn_seed()
#: Its address, for compiled code.
SEED_AT = address_of(SEED)


@callee
def base_of(seed: Address) -> I64:
    """Returns the argument `base` of the functions on polynomials."""
    return long_at(seed, _BASE)


@callee
def _reduced(product: I64) -> I64:
    """Returns a product of two numbers below the prime, and 256 more at most, modulo the prime."""
    found = (product & _PRIME) + (product >> _BITS)
    return found - _PRIME if found >= _PRIME else found


@callee
def extended(value: I64, byte: I64, base: I64) -> I64:
    """Returns the polynomial of a string extended by one byte; that of the empty string is 0."""
    return _reduced(value * base + byte + 1)


@callee
def ending(whole: I64, before: I64, power: I64) -> I64:
    """Returns the polynomial of the rest of a string after a prefix.

    Args:
        whole: the polynomial of the string.
        before: the polynomial of the prefix.
        power: the element of `powers_of_base` for the length of the rest.
    """
    rest = whole - _reduced(before * power)
    return rest + _PRIME if rest < 0 else rest


@callee
def polynomial(text: npt.NDArray[np.uint8], start: I64, end: I64, base: I64) -> I64:
    """Returns the polynomial of text[start:end]."""
    value = np.int64(0)
    for position in range(start, end):
        value = extended(value, np.int64(text[position]), base)
    return value


@callee
def mixed(value: I64, length: I64, kind: I64, seed: Address) -> I64:
    """Returns a hash of a polynomial, or of a number; `kind` separates hashes of different uses."""
    mix = np.uint64(value) + np.uint64(length) * _PER_LENGTH + np.uint64(kind) * _PER_KIND
    # A multiplication that nobody else knows: the finalizer can be inverted.
    mix = mix * np.uint64(long_at(seed, _FACTOR)) + np.uint64(long_at(seed, _SUMMAND))
    mix = (mix ^ mix >> _HALF) * _MIX_1
    mix = (mix ^ mix >> _HALF) * _MIX_2
    return np.int64(mix ^ mix >> _HALF)


@kernel
def _powers(count: int, base: int) -> npt.NDArray[np.int64]:
    powers = np.empty(count, np.int64)
    power = np.int64(1)
    for exponent in range(count):
        powers[exponent] = power
        power = _reduced(power * base)
    return powers


def powers_of_base() -> npt.NDArray[np.int64]:
    """Returns the argument `power` of `ending` by length: int64 [65,536]."""
    return _powers(_LONGEST + 1, int(SEED[Seed.BASE]))
