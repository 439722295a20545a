"""Tables of sets of bits.

A set of m bits is m/8 bytes in little-endian order: bit i is bit i mod 8 of byte i div 8. A table has rows of
whole words of 64 bits; bits from m on are 0.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Hashable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
    interface: int, held: Container[Hashable], gone: Iterable[bytes], added: Iterable[bytes], bits: int
) -> tuple[list[bytes], list[bytes]]:
    """Returns the filters that a change removes and those that it adds, each once.

    Args:
        held: the filters of the interface.

    Raises:
        ValueError: as `TreeMatcher.change`.
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
