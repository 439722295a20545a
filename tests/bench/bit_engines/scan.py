"""A linear scan over sets of bits, for comparison."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from router.matching.bloom.table import BitTable
from router.native.compiler import Array
from tests.bench.bit_engines.compiler import kernel
from tests.bench.bit_engines.rebuilt import RebuiltMatcher, Words


class ScanMatcher(RebuiltMatcher):
    """Compares each filter whose interface has not matched, word by word."""

    def _build(self, table: BitTable) -> None:
        self._table = table

    def _search(self, message: Words, open_: npt.NDArray[np.bool_]) -> None:
        _scan(self._table.rows, self._table.interface, message, open_)

    @property
    def nbytes(self) -> int:
        """See `TreeMatcher`."""
        return self._table.rows.nbytes + self._table.interface.nbytes


@kernel
def _scan(rows: Array, interface: Array, message: Array, open_: Array) -> None:
    left = open_.sum()
    for number in range(len(rows)):
        if not open_[interface[number]]:
            continue
        matches = True
        for word in range(rows.shape[1]):
            if rows[number, word] & ~message[word]:
                matches = False
                break
        if matches:
            open_[interface[number]] = False
            left -= 1
            if left == 0:
                return
