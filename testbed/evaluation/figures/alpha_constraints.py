"""Constraints of the slides' workload (part II) as numbers, their implications, and alpha of predicates.

Operators and words are those of the tables with which matching is measured
(`testbed.experiments.siena_ff.generate`): integers of 100 values, and 1,000 words.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from router.predicates import Constraint, Filter, Type
from router.wire.predicate import encode_filter
from testbed.experiments.siena_ff.generate import INTEGER_OPERATORS, STRING_OPERATORS, dictionary

INTEGERS, WORDS = 100, 1_000
#: Attribute names, at most.
NAMES = 8_192
_INTEGER_OPERATORS, _STRING_OPERATORS = tuple(INTEGER_OPERATORS), tuple(STRING_OPERATORS)
#: Numbers of integer constraints come first.
FIRST_STRING = len(_INTEGER_OPERATORS) * INTEGERS
CODES = FIRST_STRING + len(_STRING_OPERATORS) * WORDS

Bools = npt.NDArray[np.bool_]


@lru_cache(maxsize=1)
def words() -> tuple[str, ...]:
    """Returns the dictionary in ascending order."""
    return tuple(sorted(dictionary(WORDS)))


@lru_cache(maxsize=1)
def word_of_rank() -> npt.NDArray[np.int64]:
    """Returns the number of the word of each rank of frequency in `words`."""
    number = {word: index for index, word in enumerate(words())}
    return np.array([number[word] for word in dictionary(WORDS)], np.int64)


def codes_of(
    types: npt.NDArray[np.uint8], operators: npt.NDArray[np.uint8], values: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Returns the numbers of constraints in columns; a string is the rank of its word."""
    string = types == Type.STRING
    place = np.zeros((2, 256), np.int64)
    for row, known in enumerate((_INTEGER_OPERATORS, _STRING_OPERATORS)):
        place[row, list(known)] = range(len(known))
    operator = place[string.astype(np.int64), operators]
    words_ = FIRST_STRING + operator * WORDS + word_of_rank()[np.where(string, values, 0)]
    found: npt.NDArray[np.int64] = np.where(string, words_, operator * INTEGERS + values)
    return found


def constraint(name: str, code: int) -> Constraint:
    if code < FIRST_STRING:
        return Constraint(name, Type.INTEGER, _INTEGER_OPERATORS[code // INTEGERS], code % INTEGERS)
    operator, word = divmod(code - FIRST_STRING, WORDS)
    return Constraint(name, Type.STRING, _STRING_OPERATORS[operator], words()[word])


def name_of(number: int) -> str:
    return f"a{number}"


@lru_cache(maxsize=1)
def name_bytes() -> npt.NDArray[np.int64]:
    return np.array([len(name_of(number)) for number in range(NAMES)])


@lru_cache(maxsize=1)
def constraint_bytes() -> npt.NDArray[np.int64]:
    """Returns the bytes that each constraint takes in a FILTER TLV, without those of its name."""
    alone = len(encode_filter(Filter(())))
    return np.array(
        [len(encode_filter(Filter((constraint("a", code),)))) - alone - 1 for code in range(CODES)]
    )


@lru_cache(maxsize=1)
def implies() -> Bools:
    """Returns bool [codes, codes]: every value that meets the first constraint meets the second."""
    found = np.zeros((CODES, CODES), np.bool_)
    _order(_blocks(found[:FIRST_STRING, :FIRST_STRING], INTEGERS), INTEGERS, 0, 1, 2)
    _strings(found[FIRST_STRING:, FIRST_STRING:])
    return found


def _blocks(found: Bools, size: int) -> list[list[Bools]]:
    count = len(found) // size
    return [
        [found[size * a : size * (a + 1), size * b : size * (b + 1)] for b in range(count)]
        for a in range(count)
    ]


def _order(found: list[list[Bools]], size: int, equal: int, less: int, greater: int) -> None:
    row, column = np.arange(size)[:, None], np.arange(size)[None, :]
    found[equal][equal][:] = row == column
    found[equal][less][:] = row < column
    found[equal][greater][:] = row > column
    found[less][less][:] = row <= column
    found[greater][greater][:] = row >= column


def _strings(found: Bools) -> None:
    blocks, every = _blocks(found, WORDS), words()
    equal, prefix, suffix, substring, less, greater = range(6)
    _order(blocks, WORDS, equal, less, greater)
    starts, ends, holds = (
        np.array([[test(word, other) for other in every] for word in every])
        for test in (str.startswith, str.endswith, str.__contains__)
    )
    for weaker, meets in ((prefix, starts), (suffix, ends), (substring, holds)):
        blocks[equal][weaker][:] = meets
    blocks[prefix][prefix][:], blocks[prefix][substring][:] = starts, holds
    blocks[suffix][suffix][:], blocks[suffix][substring][:] = ends, holds
    blocks[substring][substring][:] = holds
    # The words that begin with p lie between p and the first word behind all of them.
    before = np.arange(WORDS)[:, None] < np.arange(WORDS)[None, :]
    blocks[prefix][less][:] = before & ~starts.T
    blocks[prefix][greater][:] = before.T
