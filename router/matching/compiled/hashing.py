"""Hashes of byte strings and of all their parts.

A polynomial modulo 2^64: from the values at all prefixes, that of any part follows by one multiplication
(Karp and Rabin, 1987). Whatever a hash finds is verified by its bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from router.matching.compiled.compiler import callee, kernel
from router.native.compiler import Native

# Unsigned within: what signed numbers do beyond their range is not defined in compiled code.
#: An odd number with bits everywhere; so are the others.
_BASE = np.uint64(0x2545F4914F6CDD1D)
#: Of the last step of MurmurHash3.
_MIX_1, _MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_PER_LENGTH, _PER_KIND = np.uint64(0x165667B19E3779F9), np.uint64(0x27D4EB2F165667C5)
_ONE, _HALF = np.uint64(1), np.uint64(33)
#: A string of the model has at most so many bytes.
_LONGEST = 65_535


@callee
def extended(value: Native, byte: Native) -> Native:
    """The polynomial of a string and one more byte; that of the empty string is 0."""
    return np.int64(np.uint64(value) * _BASE + np.uint64(byte) + _ONE)


@callee
def ending(whole: Native, before: Native, power: Native) -> Native:
    """The polynomial of what follows a prefix, from those of both and `powers_of_base` of its length."""
    return np.int64(np.uint64(whole) - np.uint64(before) * np.uint64(power))


@callee
def polynomial(text: npt.NDArray[np.uint8], start: Native, end: Native) -> Native:
    """The polynomial of text[start:end]."""
    value = np.int64(0)
    for position in range(start, end):
        value = extended(value, text[position])
    return value


@callee
def mixed(value: Native, length: Native, kind: Native) -> Native:
    """A hash of a string with this polynomial, or of a number, as something of a kind."""
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
    """int64 [65,536]: for `ending`, by length."""
    return _powers(_LONGEST + 1)
