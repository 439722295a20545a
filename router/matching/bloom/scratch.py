"""The working memory of matching sets of bits; all tables of a process share it."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from router.matching.bloom.layout import CHUNK, Search
from router.native.memory import address_of


class WorkingMemory:
    """Arrays for a search in the largest segment, and for an answer of the largest table.

    Matching is not reentrant: a process matches in one thread.

    Attributes:
        row: int64 [Search.SIZE], the row of the search, which refers to the arrays.
        found: int32, the answer of the last search.
    """

    def __init__(self) -> None:
        self.row: npt.NDArray[np.int64] = np.zeros(Search.SIZE, np.int64)
        self._arrays: dict[Search, npt.NDArray[np.generic]] = {}
        self.found: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self._put(Search.CANDIDATES, np.zeros(2 * CHUNK + 1, np.int32))
        self._nodes = 0
        self.fit_nodes(64)
        self.fit_interfaces(64)

    def fit_nodes(self, nodes: int) -> None:
        """Allocates memory for a search in a tree of this many nodes."""
        if nodes > self._nodes:
            self._nodes = 2 * nodes
            # The last element takes nodes that the message does not visit.
            self._put(Search.NODES, np.zeros(self._nodes + 1, np.int32))

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
