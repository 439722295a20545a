"""Hashes of byte strings and of their substrings.

The hash is a polynomial modulo 2^64: that of any substring follows from those of two prefixes by one
multiplication (Karp and Rabin, 1987). Every match of hashes is verified byte by byte.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from router.matching.compiled.compiler import callee, kernel
from router.native.compiler import I64

# Computed with unsigned numbers: overflow of signed numbers is undefined in compiled code.
#: An arbitrary odd number, like the others, with about half of its bits set.
_BASE = np.uint64(0x2545F4914F6CDD1D)
#: The constants of the finalizer of MurmurHash3.
_MIX_1, _MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_PER_LENGTH, _PER_KIND = np.uint64(0x165667B19E3779F9), np.uint64(0x27D4EB2F165667C5)
_ONE, _HALF = np.uint64(1), np.uint64(33)
#: The most bytes of a string (`model.STRING_MAX_BYTES`).
_LONGEST = 65_535


@callee
def extended(value: I64, byte: I64) -> I64:
    """Returns the polynomial of a string extended by one byte; that of the empty string is 0."""
    return np.int64(np.uint64(value) * _BASE + np.uint64(byte) + _ONE)


@callee
def ending(whole: I64, before: I64, power: I64) -> I64:
    """Returns the polynomial of the rest of a string after a prefix.

    Args:
        whole: the polynomial of the string.
        before: the polynomial of the prefix.
        power: the element of `powers_of_base` for the length of the rest.
    """
    return np.int64(np.uint64(whole) - np.uint64(before) * np.uint64(power))


@callee
def polynomial(text: npt.NDArray[np.uint8], start: I64, end: I64) -> I64:
    """Returns the polynomial of text[start:end]."""
    value = np.int64(0)
    for position in range(start, end):
        value = extended(value, text[position])
    return value


@callee
def mixed(value: I64, length: I64, kind: I64) -> I64:
    """Returns a hash of a polynomial, or of a number; `kind` separates hashes of different uses."""
    mix = np.uint64(value) + np.uint64(length) * _PER_LENGTH + np.uint64(kind) * _PER_KIND
    mix = (mix ^ mix >> _HALF) * _MIX_1
    mix = (mix ^ mix >> _HALF) * _MIX_2
    return np.int64(mix ^ mix >> _HALF)


@kernel
def _powers(count: int) -> npt.NDArray[np.int64]:
    powers = np.empty(count, np.int64)
    power = _ONE
    for exponent in range(count):
        powers[exponent] = np.int64(power)
        power *= _BASE
    return powers


def powers_of_base() -> npt.NDArray[np.int64]:
    """Returns the argument `power` of `ending` by length: int64 [65,536]."""
    return _powers(_LONGEST + 1)
