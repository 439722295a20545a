"""Working memory of the matching code: one for the process, whatever the number of tables in it."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from router.matching.compiled.hashing import powers_of_base
from router.matching.compiled.layout import ATTRIBUTE_WIDTH, Search
from router.native.memory import address_of

#: Ranges of postings that are noted before any is verified; beyond, they are verified at once.
_HITS = 4096
#: Bytes of the smallest ATTRIBUTE: TLV header, length of the name, name, type, value of no bytes.
_LEAST_ATTRIBUTE = 8
#: Bytes of messages for which there is always room.
_USUAL_BODY = 9_000
#: Room for longer ones is given back.
_KEPT_BODY = 1_000_000


class WorkingMemory:
    """Arrays that grow to what the largest table and message need.

    Matching is not reentrant: a process matches in one thread.

    Attributes:
        row: int64 [Search.SIZE], which refers to the arrays.
        address: of `row`.
        found: int32, the answer of the last search.
        body: bytes of the longest message for which there is room.
    """

    def __init__(self) -> None:
        self.row: npt.NDArray[np.int64] = np.zeros(Search.SIZE, np.int64)
        self.address = address_of(self.row)
        self._arrays: dict[Search, npt.NDArray[np.generic]] = {}
        self.found: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self._put(Search.HITS, np.empty((_HITS, 2), np.int64))
        self._put(Search.POWERS, powers_of_base())
        self.body = 0
        self.fit_body(_USUAL_BODY)
        self.fit_interfaces(64)
        self.fit_segment(64, 64)

    def fit_body(self, size: int) -> None:
        """Makes room for messages of so many bytes."""
        self.body = size
        self._put(Search.POLYNOMIALS, np.empty(size + 1, np.int64))
        self._put(Search.ROWS, np.empty((size // _LEAST_ATTRIBUTE + 1, ATTRIBUTE_WIDTH), np.int64))

    @property
    def is_large(self) -> bool:
        """Whether a long message has made it larger than is usual."""
        return self.body > _KEPT_BODY

    def shrink(self) -> None:
        """Gives back what a long message needed."""
        self.fit_body(_USUAL_BODY)

    def fit_interfaces(self, interfaces: int) -> None:
        """Makes room for answers of so many interfaces."""
        if interfaces > len(self.found):
            self.found = np.empty(2 * interfaces, np.int32)
            self._put(Search.FOUND, self.found)

    def fit_segment(self, slots: int, groups: int) -> None:
        """Makes room for segments of so many slots and groups."""
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
    """The one of this process."""
    return WorkingMemory()
