"""Working memory of the matching code: one for the process, whatever the number of tables in it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from router.matching.compiled.attributes import ATTRIBUTE_WIDTH
from router.matching.compiled.hashing import powers_of_base
from router.matching.compiled.memory import address_of
from router.matching.compiled.views import Scratch

#: Ranges of postings that are noted before any is verified; beyond, they are verified at once.
_HITS = 4096
#: Bytes of the smallest ATTRIBUTE: TLV header, length of the name, name, type, value of no bytes.
_LEAST_ATTRIBUTE = 8


class WorkingMemory:
    """Arrays that grow to what the largest table and message need.

    Matching is not reentrant: a process matches in one thread.

    Attributes:
        row: int64 [Scratch.SIZE], which refers to the arrays.
        found: int32, the answer of the last call.
    """

    def __init__(self) -> None:
        self.row: npt.NDArray[np.int64] = np.zeros(Scratch.SIZE, np.int64)
        self._arrays: dict[Scratch, npt.NDArray[np.generic]] = {}
        self.found: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self.body = 0
        self._put(Scratch.HITS, np.empty((_HITS, 2), np.int32))
        self._put(Scratch.POWERS, powers_of_base())
        self.fit_body(4096)
        self.fit_table(64, 64, 64)

    def fit_body(self, size: int) -> None:
        """Makes room for messages of so many bytes."""
        self.body = size
        self._put(Scratch.POLYNOMIALS, np.empty(size + 1, np.uint64))
        self._put(Scratch.ROWS, np.empty((size // _LEAST_ATTRIBUTE + 1, ATTRIBUTE_WIDTH), np.int64))

    def fit_table(self, interfaces: int, slots: int, groups: int) -> None:
        """Makes room for a table of so many interfaces, and of so many slots and groups in a segment."""
        if interfaces > len(self.found):
            self.found = np.empty(2 * interfaces, np.int32)
            self._put(Scratch.FOUND, self.found)
        if slots > self.row[Scratch.ATTRIBUTE_OF_SIZE]:
            self._put(Scratch.ATTRIBUTE_OF, np.full(2 * slots, -1, np.int32))
        if groups > self.row[Scratch.SEEN_SIZE]:
            self._put(Scratch.SEEN, np.zeros(2 * groups, np.int64))

    def _put(self, which: Scratch, array: npt.NDArray[np.generic]) -> None:
        self._arrays[which] = array
        self.row[which] = address_of(array)
        self.row[which + 1] = len(array)
