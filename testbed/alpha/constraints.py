"""Constraints of the slides' workload (part II) as numbers, and which constraint implies which.

An integer constraint is one of =, < and > (60, 20 and 20 %) with one of 100 values. A string constraint is
one of =, prefix, suffix, substring, < and > (35, 15, 15, 15, 10 and 10 %) with one of 1,000 words, of Zipf
frequency.
"""

from __future__ import annotations

from functools import lru_cache
from random import Random

import numpy as np
import numpy.typing as npt

from router.predicates.model import Constraint, Operator, Type

INTEGERS, WORDS = 100, 1_000
_INTEGER_OPERATORS = (Operator.EQ, Operator.LT, Operator.GT)
_STRING_OPERATORS = (
    *(Operator.EQ, Operator.PREFIX, Operator.SUFFIX, Operator.SUBSTRING),
    *(Operator.LT, Operator.GT),
)
INTEGER_SHARES, STRING_SHARES = (0.6, 0.2, 0.2), (0.35, 0.15, 0.15, 0.15, 0.1, 0.1)
#: Numbers of integer constraints come first.
FIRST_STRING = len(_INTEGER_OPERATORS) * INTEGERS
CODES = FIRST_STRING + len(_STRING_OPERATORS) * WORDS

Bools = npt.NDArray[np.bool_]


@lru_cache(maxsize=1)
def words() -> tuple[str, ...]:
    """Returns the dictionary in ascending order: words of one to three syllables."""
    random = Random("alpha")
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    found: set[str] = set()
    while len(found) < WORDS:
        found.add("".join(random.choices(syllables, k=random.choice((1, 2, 2, 3, 3)))))
    return tuple(sorted(found))


@lru_cache(maxsize=1)
def word_of_rank() -> npt.NDArray[np.int64]:
    """Returns the word by rank of frequency: an order of its own, since words are sorted."""
    return np.random.default_rng(1).permutation(WORDS)


def constraint(name: str, code: int) -> Constraint:
    """Returns the constraint with a number."""
    if code < FIRST_STRING:
        return Constraint(name, Type.INTEGER, _INTEGER_OPERATORS[code // INTEGERS], code % INTEGERS)
    operator, word = divmod(code - FIRST_STRING, WORDS)
    return Constraint(name, Type.STRING, _STRING_OPERATORS[operator], words()[word])


@lru_cache(maxsize=1)
def implies() -> Bools:
    """Returns bool [codes, codes]: every value that meets the first constraint meets the second."""
    found = np.zeros((CODES, CODES), np.bool_)
    _integers(found[:FIRST_STRING, :FIRST_STRING])
    _strings(found[FIRST_STRING:, FIRST_STRING:])
    return found


@lru_cache(maxsize=1)
def implies_another() -> Bools:
    """Returns `implies` without a constraint and itself."""
    return implies() & ~np.eye(CODES, dtype=np.bool_)


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


def _integers(found: Bools) -> None:
    _order(_blocks(found, INTEGERS), INTEGERS, 0, 1, 2)


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
