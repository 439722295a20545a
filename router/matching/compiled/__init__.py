"""The fast engine: the arrays that make up a segment and the state of a search, and the hashes in them.

The code that builds segments and the code that searches them share these definitions.
docs/explanation/engine.md has a diagram of segment, slot, group, posting and record.

Byte strings and their substrings are hashed under numbers that each process draws for itself. The hash of a
string begins with a polynomial modulo 2^31 - 1 at a random place (Karp and Rabin, 1987): that
of any substring follows from those of two prefixes by one multiplication. The polynomials of two different
strings of n bytes are equal at n places at most, so nobody can choose filters whose hashes collide without
knowing the place. Modulo 2^64, some strings would collide at every place. Every match of hashes is verified
byte by byte: answers do not depend on the place.
"""

from __future__ import annotations

import secrets
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from router.native import I64, Address, Compiler, address_of, long_at
from router.predicates import Type

#: The machine code contains constants of the model and of the wire format.
COMPILER = Compiler(
    "matching",
    "router.matching.compiled.*",
    "router.predicates",
    "router.wire.format",
    "router.wire.message",
    "router.wire.tlv",
)
kernel, callee = COMPILER.kernel, COMPILER.callee

STRING, INTEGER, DOUBLE, BOOLEAN = int(Type.STRING), int(Type.INTEGER), int(Type.DOUBLE), int(Type.BOOLEAN)

LOWEST = -(2**63)
HIGHEST = 2**63 - 1


class Test(IntEnum):
    """The test that a record applies to the value of its slot.

    Values are compared by int64 keys. The key of an integer or boolean is its value; doubles map to keys in
    the same order; the key of a string is its first eight bytes. If the keys of two strings differ, they
    order as the strings do; otherwise the strings are compared.
    """

    __test__ = False

    #: a <= key <= b: the operators = < > <= >= and `any` on numbers, and their conjunctions.
    RANGE = 0
    #: key != a, on numbers.
    DIFFERS = 1
    #: `any` on strings.
    IS_STRING = 2
    #: All further tests have the number of a string in b, and its key in a.
    EQUAL = 3
    UNEQUAL = 4
    PREFIX = 5
    SUFFIX = 6
    SUBSTRING = 7
    BELOW = 8
    AT_MOST = 9
    ABOVE = 10
    AT_LEAST = 11


class Access(IntEnum):
    """The access constraint of a filter: which of its constraints leads to its posting.

    The postings of a slot are in this order. A *unit* is a filter without other constraints, which matches
    without verification.
    """

    #: The message has the attribute.
    PRESENT_UNIT = 0
    #: Sorted by the bound, so that the satisfied ones come first.
    FROM_UNIT = 1
    UP_TO_UNIT = 2
    #: Both bounds; sorted by the lower one.
    BETWEEN_UNIT = 3
    PRESENT = 4
    FROM = 5
    UP_TO = 6
    BETWEEN = 7
    #: This access and the next three are grouped by value and found by hash; units come first in each group.
    EQUAL = 8
    PREFIX = 9
    SUFFIX = 10
    SUBSTRING = 11
    #: The filter is in the sieve of the segment.
    SIEVED = 13
    #: The filter has no constraints, or one that no value satisfies.
    ALWAYS = 14
    NEVER = 15


LISTS = int(Access.EQUAL)
#: An access of a slot is the number slot * ACCESSES + access; a test of a slot likewise.
ACCESS_BITS = 4
ACCESSES = 1 << ACCESS_BITS

#: Columns of the row of a slot (int32 [SLOT_WIDTH]). First posting of each list; end of the last list.
SLOT_LISTS = 0
#: Type; offset and length of the name.
SLOT_TYPE = LISTS + 1
SLOT_NAME = LISTS + 2
SLOT_NAME_LENGTH = LISTS + 3
#: Index of the first length of its prefixes, suffixes and substrings, and the end of the last ones.
SLOT_LENGTHS = LISTS + 4
#: 1 if a filter of the slot has the access EQUAL.
SLOT_EQUAL = LISTS + 8
SLOT_WIDTH = 20

#: Columns of the row of a group (int32 [GROUP_WIDTH]): its access of a slot; its first posting; the first
#: posting that is not a unit; the end. The value of the group (int64) is in `Part.GROUP_VALUE`.
GROUP_KEY, GROUP_UNITS, GROUP_OTHERS, GROUP_END, GROUP_WIDTH = 0, 1, 2, 3, 4

#: The third argument of `mixed` for strings and names; accesses of slots are not negative.
STRING_HASH, NAME_HASH = -1, -8

#: Postings in a block whose highest upper bound is stored, and blocks in a block of the second level.
BLOCK = 16


class Part(IntEnum):
    """Columns of the row that describes a segment (int64): the address of an array, or a number."""

    SLOT_TABLE = 0  # int32 [2^n]: slot or -1, by hash of name and type
    SLOT_HASH = 1  # int64 [2^n]
    SLOT_BITS = 2  # 2^n
    SLOT_ROWS = 3  # int32 [slots, SLOT_WIDTH]
    NAMES = 4  # uint8: the names, one behind the other
    STRING_START = 5  # int32 [strings + 1]
    TEXT = 6  # uint8: the strings, one behind the other
    GROUP_TABLE = 7  # int32 [2^n]: group or -1
    GROUP_HASH = 8
    GROUP_BITS = 9
    GROUP_ROWS = 10  # int32 [groups, GROUP_WIDTH]
    GROUP_VALUE = 11  # int64 [groups]
    BLOOM = 12  # int64 [2^n]: bits of the hashes of patterns
    BLOOM_WORDS = 13
    FIRST_BYTES = 14  # int64 [slots, 4]: bits of the first bytes of substrings
    LENGTHS = 15  # int32 [lengths]
    INTERFACE = 16  # int32 [postings]: dense number of the interface, 0 if the filter was removed
    NEEDS = 17  # int64 [postings]: a bit for each slot of the filter; 0: a unit
    RECORD_START = 18  # int32 [postings + 1]
    LOWER = 19  # int64 [postings]
    UPPER = 20  # int64 [postings]
    BLOCK_UPPER = 21  # int64 [postings / BLOCK]
    BLOCKS_UPPER = 22  # int64 [postings / BLOCK^2]
    RECORD_TEST = 23  # int32 [records]: slot * ACCESSES + test
    RECORD_A = 24  # int64 [records]
    RECORD_B = 25  # int64 [records]
    ALWAYS_START = 26  # postings of filters without constraints
    ALWAYS_END = 27
    STRING_POLYNOMIAL = 28  # int64 [strings]
    SIEVE_START = 29  # postings of the sieve, up to those without constraints
    SIEVE_SLOTS = 30  # the arrays of `sieve.Sieve`
    SIEVE_CUTS = 31
    SIEVE_POSSIBLE = 32
    SIEVE_BOUNDS = 33
    SIEVE_FILTERS = 34
    SIEVE_BEGINS = 35
    SIEVE_GROUPS = 36
    SIEVE_MEMBERS = 37
    SIEVE_CHOSEN = 38
    SIEVE_ROWS = 39
    SIEVE_LEFT = 40
    SIEVE_COUNT = 41  # its slots; 0: the segment has no sieve
    SIEVE_CELLS = 42  # of a slot
    SIEVE_WORDS = 43  # of a bitmap
    SIZE = 44


class Search(IntEnum):
    """Columns of the row that holds the state of a search (int64): the address of an array, or a number."""

    ROWS = 0  # int64 [attributes, ATTRIBUTE_WIDTH]
    POLYNOMIALS = 1  # int64 [bytes of the body + 1]: [offset of a string + k] is that of its first k bytes
    ATTRIBUTE_OF = 2  # int64 [slots of the largest segment]: the row of its attribute; 0 between searches
    HITS = 3  # int64 [HITS, 2]: ranges of postings that are to be verified
    POWERS = 4  # int64: `powers_of_base`
    FOUND = 5  # int32 [interfaces]: the answer
    SEEN = 6  # int64 [groups of the largest segment]: the round in which a substring was last found
    ROUND = 7  # number of segments searched so far
    BODY = 8  # the message
    COUNT = 9  # number of its attributes
    OPEN = 10  # uint8 [interfaces]: turn of the last search in which it matched, or `CLOSED`
    LIMIT = 11  # number of interfaces to be matched
    NUMBER = 12  # number of interfaces that have matched
    HIT = 13  # number of ranges in HITS
    HAVE = 14  # a bit for each slot (modulo 64) of the segment whose attribute the message has
    SEED = 15  # the address of `SEED`
    STEPS = 16  # steps that the search may still take; negative: it took too many
    SPENT = 17  # steps of all searches so far
    SIZE = 18


#: Ranges of postings that can wait for verification; further ranges are verified at once.
HITS = 4096
#: In `Search.OPEN`: the interface is not to be matched. Turns of searches are below; 0 is that of none.
CLOSED = 255

#: Columns of an attribute's row (int64 [ATTRIBUTE_WIDTH]): polynomial, offset and length of the name in the
#: body; hash of name and type; type, offset, length and key of the value; its slot in the segment that is
#: being searched, -1 if there is none.
NAME, NAME_AT, NAME_LENGTH, NAMED, TYPE, AT, LENGTH, KEY, SLOT, ATTRIBUTE_WIDTH = range(10)
ATTRIBUTE_BYTES = 8 * ATTRIBUTE_WIDTH


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
#: The most bytes of a string (`router.predicates.STRING_MAX_BYTES`).
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
