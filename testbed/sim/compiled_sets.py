"""Sets of filters as rows of words, in compiled code."""

from __future__ import annotations

from router.native.compiler import I64, Address, Compiler, Flag
from router.native.words import ones, put_word, word_at

callee = Compiler.callee


@callee
def has(members: Address, number: I64) -> Flag:
    """Whether a filter is in a row."""
    return word_at(members, number >> 6) >> (number & 63) & 1 != 0


@callee
def include(members: Address, number: I64) -> None:
    """Adds a filter to a row."""
    put_word(members, number >> 6, word_at(members, number >> 6) | 1 << (number & 63))


@callee
def exclude(members: Address, number: I64) -> None:
    """Removes a filter from a row."""
    put_word(members, number >> 6, word_at(members, number >> 6) & ~(1 << (number & 63)))


@callee
def differs(members: Address, others: Address, words: I64) -> Flag:
    """Whether two rows differ."""
    found = 0
    for word in range(words):
        found |= word_at(members, word) ^ word_at(others, word)
    return found != 0


@callee
def meets(members: Address, others: Address, words: I64) -> Flag:
    """Whether two rows have a filter in common."""
    found = 0
    for word in range(words):
        found |= word_at(members, word) & word_at(others, word)
    return found != 0


@callee
def size(members: Address, words: I64) -> I64:
    """The number of filters in a row."""
    count = 0
    for word in range(words):
        count += ones(word_at(members, word))
    return count
