"""Dense numbers of interfaces, and sets of interfaces for compiled code."""

from __future__ import annotations

from dataclasses import dataclass
from sys import getsizeof

import numpy as np
import numpy.typing as npt

from router.native import address_of

#: Memory of cached sets, in bytes; beyond it, the cache is cleared.
_KEPT_BYTES = 16 * 1024 * 1024
#: Memory of two numbers as objects, in bytes.
_NUMBERS = 64
#: Approximate memory of a set apart from its array, in bytes.
_OVERHEAD = 500


@dataclass(frozen=True, slots=True)
class Asked:
    """A set of interfaces that messages are matched against.

    Attributes:
        open: uint8 [dense numbers], 1 for the interfaces of the set that have filters.
        address: the address of `open`.
        count: the number of interfaces of the set that have filters.
    """

    open: npt.NDArray[np.uint8]
    address: int
    count: int


class Interfaces:
    """Dense numbers, from 1, of the interfaces that have filters; 0 is no interface.

    Attributes:
        dense: interface -> dense number.
    """

    def __init__(self) -> None:
        self.dense: dict[int, int] = {}
        self._interface: list[int] = [0]
        self._free: list[int] = []
        self._asked: dict[frozenset[int] | None, Asked] = {}
        self._kept = 0

    @property
    def room(self) -> int:
        """A number above all dense numbers."""
        return len(self._interface)

    def add(self, interface: int) -> None:
        """Assigns a dense number to an interface that has none."""
        if self._free:
            dense = self._free.pop()
            self._interface[dense] = interface
        else:
            dense = len(self._interface)
            self._interface.append(interface)
        self.dense[interface] = dense
        self._forget_sets()

    def remove(self, interface: int) -> int:
        """Removes an interface, whose filters the segments no longer have; returns its number."""
        dense = self.dense.pop(interface)
        self._free.append(dense)
        self._forget_sets()
        return dense

    def asked(self, among: frozenset[int] | None) -> Asked:
        """Returns a set of interfaces for compiled code; None stands for all interfaces."""
        known = self._asked.get(among)
        if known is not None:
            return known
        size = len(self._interface)
        open_ = np.zeros(size, np.uint8)
        chosen = self.dense.values() if among is None else map(self.dense.get, among)
        numbers = [dense for dense in chosen if dense is not None]
        open_[numbers] = 1
        asked = Asked(open_, address_of(open_), len(numbers))
        self._kept += size + _OVERHEAD
        if self._kept > _KEPT_BYTES:
            self._forget_sets()
        self._asked[among] = asked
        return asked

    def names(self, dense: list[int]) -> frozenset[int]:
        """Returns the interfaces with these dense numbers."""
        interface = self._interface
        return frozenset([interface[number] for number in dense])

    @property
    def nbytes(self) -> int:
        objects = getsizeof(self.dense) + getsizeof(self._interface) + _NUMBERS * len(self._interface)
        return self._kept + objects

    def _forget_sets(self) -> None:
        self._asked.clear()
        self._kept = 0
