"""The dictionary of synthetic matching workloads: words in descending order of frequency.

The words consist of syllables, have four letters or more, and are about as long as English words. The
dictionary depends on its size alone, and a smaller dictionary is a prefix of a larger one, so tables and
messages that are generated separately share their words.
"""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np
import numpy.typing as npt

from router.predicates.lexer import KEYWORDS

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
