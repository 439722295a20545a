"""The working memory of matching; all tables of a process share it."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from router.matching.compiled.hashing import SEED_AT, powers_of_base
from router.matching.compiled.layout import ATTRIBUTE_WIDTH, Search
from router.native.memory import address_of

#: Number of ranges of postings that can wait for verification; further ranges are verified at once.
_HITS = 4096
#: Bytes of the smallest ATTRIBUTE: TLV header, length of the name, name, type, empty value.
_LEAST_ATTRIBUTE = 8
#: Messages of this many bytes always fit.
_USUAL_BODY = 9_000
#: Memory for messages of more bytes is released after use.
_KEPT_BODY = 1_000_000


class WorkingMemory:
    """Arrays that grow with the largest table and message.

    Matching is not reentrant: a process matches in one thread.

    Attributes:
        row: int64 [Search.SIZE], the row of the search, which refers to the arrays.
        address: the address of `row`.
        found: int32, the answer of the last search.
        body: the length in bytes of the longest message that fits.
    """

    def __init__(self) -> None:
        self.row: npt.NDArray[np.int64] = np.zeros(Search.SIZE, np.int64)
        self.address = address_of(self.row)
        self._arrays: dict[Search, npt.NDArray[np.generic]] = {}
        self.found: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self._put(Search.HITS, np.empty((_HITS, 2), np.int64))
        self._put(Search.POWERS, powers_of_base())
        self.row[Search.SEED] = SEED_AT
        self.body = 0
        self.fit_body(_USUAL_BODY)
        self.fit_interfaces(64)
        self.fit_segment(64, 64)

    def fit_body(self, size: int) -> None:
        """Allocates memory for messages of `size` bytes."""
        self.body = size
        self._put(Search.POLYNOMIALS, np.empty(size + 1, np.int64))
        self._put(Search.ROWS, np.empty((size // _LEAST_ATTRIBUTE + 1, ATTRIBUTE_WIDTH), np.int64))

    @property
    def is_large(self) -> bool:
        """Whether memory was allocated for an unusually long message."""
        return self.body > _KEPT_BODY

    def shrink(self) -> None:
        """Releases the memory for long messages."""
        self.fit_body(_USUAL_BODY)

    def fit_interfaces(self, interfaces: int) -> None:
        """Allocates memory for answers of this many interfaces."""
        if interfaces > len(self.found):
            self.found = np.empty(2 * interfaces, np.int32)
            self._put(Search.FOUND, self.found)

    def fit_segment(self, slots: int, groups: int) -> None:
        """Allocates memory for segments of this many slots and groups."""
        if slots > self.row[Search.ATTRIBUTE_OF_SIZE]:
            self._put(Search.ATTRIBUTE_OF, np.zeros(2 * slots, np.int64))
        if groups > self.row[Search.SEEN_SIZE]:
            self._put(Search.SEEN, np.zeros(2 * groups, np.int64))

    def _put(self, which: Search, array: npt.NDArray[np.generic]) -> None:
        self._arrays[which] = array
        self.row[which] = address_of(array)
        self.row[which + 1] = len(array)


@cache
def working_memory() -> WorkingMemory:
    """Returns the working memory of the process."""
    return WorkingMemory()
