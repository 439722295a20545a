"""The working memory of matching sets of bits; all tables of a process share it."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from router.matching.bloom.interface import BITS_MAX, WORD
from router.matching.bloom.layout import CHUNK, Search
from router.native.memory import address_of


class WorkingMemory:
    """Arrays for a message of `BITS_MAX` bits and an answer of the largest table.

    Matching is not reentrant: a process matches in one thread.

    Attributes:
        row: int64 [Search.SIZE], the row of the search, which refers to the arrays.
        found: int32, the answer of the last search.
    """

    def __init__(self) -> None:
        self.row: npt.NDArray[np.int64] = np.zeros(Search.SIZE, np.int64)
        self._arrays: dict[Search, npt.NDArray[np.generic]] = {}
        self.found: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self._put(Search.HAVE, np.zeros(BITS_MAX // WORD + 2, np.uint64))
        self._put(Search.PRESENT, np.zeros(BITS_MAX, np.uint8))
        self._put(Search.RANKS, np.zeros(BITS_MAX, np.int32))
        self._put(Search.CANDIDATES, np.zeros(2 * CHUNK + 1, np.int32))
        self.fit_interfaces(64)

    def fit_interfaces(self, interfaces: int) -> None:
        """Allocates memory for answers of this many interfaces."""
        if interfaces > len(self.found):
            self.found = np.empty(2 * interfaces, np.int32)
            self._put(Search.FOUND, self.found)

    def _put(self, which: Search, array: npt.NDArray[np.generic]) -> None:
        self._arrays[which] = array
        self.row[which] = address_of(array)


@cache
def working_memory() -> WorkingMemory:
    """Returns the working memory of the process."""
    return WorkingMemory()
