"""The numbers of a pool's filters in the canonical order of the filters.

The order is kept as filters come: the filters of a set are then picked from it in one pass, 50,000 in some
2 ms, which is faster than to sort them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from router.predicates.covering.bitset import Bits

_BLOCK = 512


K = TypeVar("K", bytes, str)


class CanonicalOrder(Generic[K]):
    """Numbers in ascending order of their keys, in blocks of at most 512."""

    def __init__(self) -> None:
        self._keys: list[list[K]] = []
        self._numbers: list[array[int]] = []
        #: The first key of each block.
        self._firsts: list[K] = []
        #: All numbers in order; None: not computed since a number was added.
        self._all: npt.NDArray[np.int64] | None = None
        self._count = 0

    def __len__(self) -> int:
        """Returns the number of numbers."""
        return self._count

    def add(self, key: K, number: int) -> None:
        """Adds a number with its key."""
        self._all = None
        self._count += 1
        if not self._firsts:
            self._keys, self._numbers, self._firsts = [[key]], [array("q", (number,))], [key]
            return
        block = max(bisect_right(self._firsts, key) - 1, 0)
        keys, numbers = self._keys[block], self._numbers[block]
        position = bisect_left(keys, key)
        keys.insert(position, key)
        numbers.insert(position, number)
        self._firsts[block] = keys[0]
        if len(keys) > _BLOCK:
            half = len(keys) // 2
            self._keys[block : block + 1] = [keys[:half], keys[half:]]
            self._numbers[block : block + 1] = [numbers[:half], numbers[half:]]
            self._firsts.insert(block + 1, keys[half])

    def remove(self, gone: Bits) -> None:
        """Removes numbers."""
        block = 0
        while block < len(self._keys):
            pairs = zip(self._keys[block], self._numbers[block], strict=True)
            left = [(key, number) for key, number in pairs if not gone >> number & 1]
            self._count -= len(self._keys[block]) - len(left)
            self._all = None
            if left:
                self._keys[block] = [key for key, _ in left]
                self._numbers[block] = array("q", (number for _, number in left))
                self._firsts[block] = left[0][0]
                block += 1
            else:
                del self._keys[block], self._numbers[block], self._firsts[block]

    def among(self, members: Bits) -> list[int]:
        """Returns those of some numbers that were added, in order."""
        ordered = self._all_numbers()
        picked = ordered[_flags(members, ordered.max(initial=-1) + 1)[ordered]]
        found: list[int] = picked.tolist()
        return found

    def _all_numbers(self) -> npt.NDArray[np.int64]:
        if self._all is None:
            # The arrays of the blocks may grow again: none is shared.
            blocks = [np.frombuffer(block, np.int64) for block in self._numbers]
            self._all = np.concatenate(blocks) if blocks else np.empty(0, np.int64)
        return self._all


def _flags(members: Bits, size: int) -> npt.NDArray[np.bool_]:
    """Whether each number below `size` is in the set: bool [size]."""
    width = -(-int(size) // 8)
    octets = (members & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    return np.unpackbits(np.frombuffer(octets, np.uint8), bitorder="little").view(np.bool_)
