"""Parameters and dictionary of synthetic forwarding tables and messages for measurements of matching.

Source: Carzaniga's slides on content-based forwarding, "Workload Parameters" (those of the SIGCOMM 2003
paper): messages of 5 to 10 attributes, filters of 1 to 6 constraints, names and strings from a dictionary
of 1,000 words by Zipf's law, half of all values strings; the rest are integers, uniform over 100 values (as
in the authors' simulator). The slides leave the rest open; it was chosen as follows. The type of a value does
not depend on its name; the names in a message, and in a filter, are distinct; a prefix, suffix or substring
is a whole word; the numbers of filters of two interfaces differ by at most one.

The words of the dictionary consist of syllables, have four letters or more, and are about as long as English
words. It depends on its size alone, and a smaller dictionary is a prefix of a larger one, so tables and
messages that are generated separately share their words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from math import inf
from random import Random

import numpy as np
import numpy.typing as npt

from router.predicates.lexer import KEYWORDS
from router.predicates.model import INTEGER_MAX, STRING_ONLY, Operator
from testbed.support.errors import InputError

CONSTRAINTS_MAX = 5_000_000
INTERFACES_MAX = 1_000_000
MESSAGES_MAX = 1_000_000_000
INTEGER_OPERATORS: Mapping[Operator, float] = {Operator.EQ: 60, Operator.LT: 20, Operator.GT: 20}
STRING_OPERATORS: Mapping[Operator, float] = {
    Operator.EQ: 35,
    Operator.PREFIX: 15,
    Operator.SUFFIX: 15,
    Operator.SUBSTRING: 15,
    Operator.LT: 10,
    Operator.GT: 10,
}


@dataclass(frozen=True)
class MatchingWorkload:
    """Parameters of a table and of messages to it; the same parameters give the same table and messages.

    Attributes:
        constraints: in the whole table, exactly; the last filter is cut where they end.
        interfaces: numbered from 1.
        messages: how many.
        filter_constraints: fewest and most constraints of a filter (uniform).
        message_attributes: fewest and most attributes of a message (uniform).
        words: size of the dictionary.
        zipf: exponent of Zipf's law, of names and of string values; 0 is uniform.
        strings_percent: how many values are strings.
        integers: integers are 0 to integers - 1 (uniform).
        integer_operators, string_operators: weights; any scale.

    Raises:
        InputError: a parameter is out of range, or they contradict each other.
    """

    constraints: int = 100_000
    interfaces: int = 100
    messages: int = 1_000
    seed: int = 1
    filter_constraints: tuple[int, int] = (1, 6)
    message_attributes: tuple[int, int] = (5, 10)
    words: int = 1_000
    zipf: float = 1.0
    strings_percent: float = 50.0
    integers: int = 100
    integer_operators: Mapping[Operator, float] = field(default_factory=lambda: INTEGER_OPERATORS)
    string_operators: Mapping[Operator, float] = field(default_factory=lambda: STRING_OPERATORS)

    def __post_init__(self) -> None:
        _within("constraints", self.constraints, 1, CONSTRAINTS_MAX)
        _within("interfaces", self.interfaces, 1, INTERFACES_MAX)
        _within("messages", self.messages, 0, MESSAGES_MAX)
        _within("seed", self.seed, 0, None)
        _within("words", self.words, 1, 1_000_000)
        _within("zipf", self.zipf, 0, 3)
        _within("strings_percent", self.strings_percent, 0, 100)
        _within("integers", self.integers, 1, INTEGER_MAX)
        for name, (fewest, most) in (
            ("filter_constraints", self.filter_constraints),
            ("message_attributes", self.message_attributes),
        ):
            _within(name, fewest, 1 if name == "filter_constraints" else 0, most)
            if most > self.words:
                raise InputError(f"{name}: {most} different names, but the dictionary has {self.words} words")
        for name, operators in (
            ("integer_operators", self.integer_operators),
            ("string_operators", self.string_operators),
        ):
            if not 0 < sum(operators.values()) < inf or min(operators.values()) < 0:
                raise InputError(f"{name}: expected finite weights of 0 or more, at least one of them more")
        if wrong := STRING_ONLY & self.integer_operators.keys():
            raise InputError(f"integer_operators: {min(wrong).name.lower()} is for strings only")


def _within(name: str, value: float, least: float, most: float | None) -> None:
    if not (least <= value and (most is None or value <= most)):
        limits = f"{least:,} or more" if most is None else f"{least:,} to {most:,}"
        raise InputError(f"{name}: expected {limits}, found {value:,}")


_ONSETS = ("b c d f g h j k l m n p r s t v w z " * 2 + "br ch cl cr dr fl gr pl pr sh sl st th tr").split()
_VOWELS = [*"aeiouaeiou", "ai", "ea", "ou"]
_CODAS = ["", "", "", "l", "m", "n", "r", "s", "t", "ck", "nd", "rt"]
#: Words of one to five syllables, by weight.
_SYLLABLES = (1, 2, 3, 4, 5)
_WEIGHTS = (4, 36, 40, 16, 4)
_SHORTEST = 4


@cache
def dictionary(size: int) -> tuple[str, ...]:
    """`size` different words, the most frequent first; all are attribute names that need no quotes."""
    random = Random("dictionary of matching workloads")
    words: dict[str, None] = {}
    while len(words) < size:
        count = random.choices(_SYLLABLES, _WEIGHTS)[0]
        parts = (random.choice(_ONSETS) + random.choice(_VOWELS) for _ in range(count))
        word = "".join(parts) + random.choice(_CODAS)
        if len(word) >= _SHORTEST and word not in KEYWORDS:
            words[word] = None
    return tuple(words)


def zipf(size: int, exponent: float) -> npt.NDArray[np.float64]:
    """Cumulative probabilities [size] of ranks from 0: the weight of rank r is (r + 1)^-exponent."""
    cumulative = np.cumsum(np.arange(1, size + 1, dtype=np.float64) ** -exponent)
    return np.asarray(cumulative / cumulative[-1])
