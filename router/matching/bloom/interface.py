"""The interface of engines for sets of bits, and tables of such sets.

A set of m bits is m/8 bytes in little-endian order: bit i is bit i mod 8 of byte i div 8. A table has rows of
whole words of 64 bits; bits from m on are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from router.registry import Registry

#: Greatest m.
BITS_MAX = 4096
WORD = 64


@dataclass(frozen=True, slots=True)
class BitTable:
    """F filters of any number of interfaces.

    Attributes:
        rows: uint64 [F, words], B_f of each filter.
        interface: int32 [F], the interface of each filter.

    Raises:
        ValueError: the shapes contradict each other.
    """

    rows: npt.NDArray[np.uint64]
    interface: npt.NDArray[np.int32]

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.interface.shape != self.rows.shape[:1]:
            raise ValueError(
                f"rows of shape {self.rows.shape}, interfaces of shape {self.interface.shape}; "
                "expected (filters, words) and (filters,)"
            )

    @property
    def filters(self) -> int:
        return len(self.interface)


class BitMatcher(Protocol):
    """A table of filters by interface, and the interfaces with a filter that is a subset of a message.

    A filter is given as the bytes of its set; an interface has a filter at most once.
    """

    def change(self, interface: int, gone: Iterable[bytes], added: Iterable[bytes]) -> None:
        """Removes filters from an interface and adds others.

        Raises:
            ValueError: a filter has another length than m/8 bytes, or the interface lacks a filter of `gone`.
                Nothing is changed then.
        """

    def set_filters(self, interface: int, filters: Iterable[bytes]) -> None:
        """Sets the filters of an interface, in place of earlier ones.

        Raises:
            ValueError: a filter has another length than m/8 bytes; the earlier ones stay.
        """

    def remove(self, interface: int) -> None:
        """Removes an interface; no effect if it has no filter."""

    def load(self, table: BitTable) -> None:
        """Replaces the whole content by `table`.

        Filters of a loaded interface are removed with the interface, or replaced by `set_filters`; `change`
        of one of them is a ValueError.

        Raises:
            ValueError: the rows have another number of words than m bits need.
        """

    def match(self, bits: bytes, among: Collection[int] | None = None) -> frozenset[int]:
        """Returns the interfaces with a filter B_f that is a subset of B_m.

        Args:
            bits: B_m, m/8 bytes.
            among: the interfaces to consider; None for all.

        Raises:
            ValueError: `bits` has another length.
        """

    @property
    def empty(self) -> bool:
        """Whether no interface has a filter."""

    @property
    def nbytes(self) -> int:
        """The memory of the table and its index, in bytes, without filters that callers passed as objects."""


#: Makes an empty engine for sets of m bits.
BitEngineFactory = Callable[[int], BitMatcher]
BIT_ENGINES: Registry[BitEngineFactory] = Registry("engine for sets of bits")
BIT_ENGINES.register_lazily(
    "tree",
    "router.matching.bloom.engine:TreeMatcher",
    "A tree of the most frequent bits of filters; the fast engine.",
)
BIT_ENGINES.register_lazily(
    "scan", "router.matching.bloom.scan:ScanMatcher", "Every filter is compared, word by word."
)
BIT_ENGINES.register_lazily(
    "sliced",
    "router.matching.bloom.sliced:SlicedMatcher",
    "A column for each bit; the columns of the message's zeros exclude filters.",
)
BIT_ENGINES.register_lazily(
    "patricia",
    "router.matching.bloom.patricia:PatriciaMatcher",
    "A PATRICIA trie over the bits of the filters in ascending order.",
)
BIT_ENGINES.register_lazily(
    "naive", "router.matching.bloom.naive:NaiveBitMatcher", "Integers of Python: the reference of the others."
)
DEFAULT_BIT_ENGINE = "tree"


def words_of(bits: int) -> int:
    """The number of words in a row of sets of m bits.

    Raises:
        ValueError: m is not a multiple of 8 from 8 to `BITS_MAX`.
    """
    if not 8 <= bits <= BITS_MAX or bits % 8:
        raise ValueError(f"sets of {bits} bits; expected a multiple of 8 from 8 to {BITS_MAX}")
    return -(-bits // WORD)


def rows_of(filters: Collection[bytes], bits: int) -> npt.NDArray[np.uint64]:
    """The rows of sets of m bits: uint64 [filters, words]."""
    words = words_of(bits)
    padded = b"".join(filter_.ljust(8 * words, b"\0") for filter_ in filters)
    return np.frombuffer(padded, "<u8").astype(np.uint64).reshape(len(filters), words)


def check_change(
    interface: int, held: Container[bytes], gone: Iterable[bytes], added: Iterable[bytes], bits: int
) -> tuple[list[bytes], list[bytes]]:
    """Returns the filters that a change removes and those that it adds, each once.

    Args:
        held: the filters of the interface.

    Raises:
        ValueError: as `BitMatcher.change`.
    """
    removed = list(dict.fromkeys(gone))
    for filter_ in removed:
        if filter_ not in held:
            raise ValueError(f"interface {interface}: it has no filter {filter_.hex()}")
    return removed, [check_length(filter_, bits) for filter_ in dict.fromkeys(added)]


def check_length(row: bytes, bits: int) -> bytes:
    """Returns a set of m bits.

    Raises:
        ValueError: it has another length.
    """
    if len(row) * 8 != bits:
        raise ValueError(f"a set of {len(row)} bytes; expected {bits // 8}")
    return row
