"""What arrays hold, as numbers: shared by the code that builds segments and the code that searches them."""

from __future__ import annotations

from enum import IntEnum

from router.predicates.model import Type

STRING, INTEGER, DOUBLE, BOOLEAN = int(Type.STRING), int(Type.INTEGER), int(Type.DOUBLE), int(Type.BOOLEAN)

LOWEST = -(2**63)
HIGHEST = 2**63 - 1


class Test(IntEnum):
    """What a record asks of the value in its slot.

    Values are compared as int64 keys. An integer and a boolean are their own; doubles are mapped to keys that
    order as they do; a string's key is its first eight bytes, and decides where it differs from the other's.
    """

    __test__ = False

    #: a <= key <= b: = < > <= >= and `any` on numbers, and what they make together.
    RANGE = 0
    #: key != a, on numbers.
    DIFFERS = 1
    #: `any` on strings.
    IS_STRING = 2
    #: The others have the number of a string in b, and the last four its key in a.
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
    """How a filter is come by: through which of its constraints, and where its posting is filed.

    Within a slot, postings stand in this order. A *unit* has no other constraint and nothing to be verified.
    """

    #: The attribute is there.
    PRESENT_UNIT = 0
    #: Sorted by their bound: those that the value satisfies come first.
    FROM_UNIT = 1
    UP_TO_UNIT = 2
    #: Both bounds; sorted by the lower one.
    BETWEEN_UNIT = 3
    PRESENT = 4
    FROM = 5
    UP_TO = 6
    BETWEEN = 7
    #: From here on grouped by value and found by hash; units come first in each group.
    EQUAL = 8
    PREFIX = 9
    SUFFIX = 10
    SUBSTRING = 11
    #: No constraint at all, or one that nothing satisfies.
    ALWAYS = 14
    NEVER = 15


LISTS = int(Access.EQUAL)
#: Slot and access make one number.
ACCESSES = 16

#: Of the row of a slot (int32 [SLOT_WIDTH]): where each list's postings begin, and the last one's end.
SLOT_LISTS = 0
#: Type, and offset and length of the name.
SLOT_TYPE = LISTS + 1
SLOT_NAME = LISTS + 2
SLOT_NAME_LENGTH = LISTS + 3
#: Where the lengths of its prefixes, suffixes and substrings begin, and the last one's end.
SLOT_LENGTHS = LISTS + 4
#: Whether a filter is filed under equality.
SLOT_EQUAL = LISTS + 8
SLOT_WIDTH = 20

#: Of the row of a group (int32 [GROUP_WIDTH]): its access of a slot; where its postings begin, where those
#: that are no units begin, and where they end. Its value (int64) stands elsewhere.
GROUP_KEY, GROUP_UNITS, GROUP_OTHERS, GROUP_END, GROUP_WIDTH = 0, 1, 2, 3, 4

#: Kinds of hashes, apart from those of accesses of slots, which are not negative.
STRING_HASH, NAME_HASH = -1, -8

#: Postings in a block of which the highest upper bound is kept, and blocks in a block of blocks.
BLOCK = 16


class Part(IntEnum):
    """Of the row that describes a segment (int64): address or number."""

    SLOTS = 0  # number of slots
    SLOT_TABLE = 1  # int32 [2^n]: slot or -1, by hash of name and type
    SLOT_HASH = 2  # int64 [2^n]
    SLOT_BITS = 3  # 2^n
    SLOT_ROWS = 4  # int32 [slots, SLOT_WIDTH]
    NAMES = 5  # uint8 [NAMES_SIZE]
    NAMES_SIZE = 6
    STRING_TABLE = 7  # int32 [2^n]: string or -1, by hash
    STRING_HASH = 8
    STRING_BITS = 9
    STRING_START = 10  # int32 [strings + 1]
    STRINGS = 11
    TEXT = 12  # uint8 [TEXT_SIZE]
    TEXT_SIZE = 13
    GROUP_TABLE = 14  # int32 [2^n]: group or -1
    GROUP_HASH = 15
    GROUP_BITS = 16
    GROUP_ROWS = 17  # int32 [groups, GROUP_WIDTH]
    GROUP_VALUE = 18  # int64 [groups]
    GROUPS = 19
    BLOOM = 20  # int64 [2^n]: bits of the hashes of patterns
    BLOOM_WORDS = 21
    FIRST_BYTES = 22  # int64 [slots, 4]: bits of the first bytes of substrings
    LENGTHS = 23  # int32 [lengths]
    LENGTHS_SIZE = 24
    POSTINGS = 25  # number of postings
    INTERFACE = 26  # int32 [postings]: dense number of the interface, 0 if the filter is gone
    NEEDS = 27  # int64 [postings]: a bit for each slot of the filter; 0: a unit
    RECORD_START = 28  # int32 [postings + 1]
    LOWER = 29  # int64 [postings]
    UPPER = 30  # int64 [postings]
    BLOCK_UPPER = 31  # int64 [postings / BLOCK]
    BLOCKS_UPPER = 32  # int64 [postings / BLOCK^2]
    RECORD_TEST = 33  # int32 [records]: slot * ACCESSES + test
    RECORD_A = 34  # int64 [records]
    RECORD_B = 35  # int64 [records]
    RECORDS = 36
    ALWAYS_START = 37  # postings of filters without constraints
    ALWAYS_END = 38
    SIZE = 39


class Search(IntEnum):
    """Of the row that a search works on (int64): address or number."""

    ROWS = 0  # int64 [ROWS_SIZE, ATTRIBUTE_WIDTH]
    ROWS_SIZE = 1
    POLYNOMIALS = 2  # int64 [POLYNOMIALS_SIZE]: at the offset of a string + k, that of its first k bytes
    POLYNOMIALS_SIZE = 3
    ATTRIBUTE_OF = 4  # int64 [slots of the largest segment]: the row of its attribute; 0 between searches
    ATTRIBUTE_OF_SIZE = 5
    HITS = 6  # int64 [HITS_SIZE, 2]: ranges of postings to be verified
    HITS_SIZE = 7
    POWERS = 8  # int64 [POWERS_SIZE]: `hashing.powers_of_base`
    POWERS_SIZE = 9
    FOUND = 10  # int32 [FOUND_SIZE]: the answer
    FOUND_SIZE = 11
    SEEN = 12  # int64 [groups of the largest segment]: the round in which a substring was last found
    SEEN_SIZE = 13
    ROUND = 14  # how many segments were searched up to now
    BODY = 15  # the message
    COUNT = 16  # its attributes
    OPEN = 17  # uint8 [interfaces]: 1 for each interface that is asked for and has not matched
    WANTED = 18  # how many are asked for
    NUMBER = 19  # how many have matched
    HIT = 20  # how many ranges are noted
    HAVE = 21  # a bit for each slot (modulo 64) of the segment that the message has
    SIZE = 22


#: Columns of an attribute's row (int64 [ATTRIBUTE_WIDTH]): of the name, the polynomial, offset and length
#: in the body, and the hash of name and type; of the value, type, offset, length, key and, of strings, hash.
NAME, NAME_AT, NAME_LENGTH, NAMED, TYPE, AT, LENGTH, KEY, HASH = range(9)
#: In the segment at hand: slot (or -1), and number of the string (or -1).
SLOT, TEXT = 9, 10
ATTRIBUTE_WIDTH = 12
ATTRIBUTE_BYTES = 8 * ATTRIBUTE_WIDTH
