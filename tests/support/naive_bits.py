"""The oracle of matching of sets of bits: each filter is compared as an integer."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from sys import getsizeof

from router.matching.bloom.layout import BitTable, words_of


class NaiveBitMatcher:
    """Compares the message with each filter; see `TreeMatcher`."""

    def __init__(self, bits: int) -> None:
        words_of(bits)
        self._bits = bits
        self._filters: dict[int, dict[bytes, int]] = {}

    def change(self, interface: int, gone: Iterable[bytes], added: Iterable[bytes]) -> None:
        """See `TreeMatcher`."""
        held = self._filters.get(interface, {})
        for filter_ in gone:
            del held[filter_]
        held.update((filter_, int.from_bytes(filter_, "little")) for filter_ in added)
        if held:
            self._filters[interface] = held
        else:
            self._filters.pop(interface, None)

    def replace(self, interface: int, filters: Iterable[bytes]) -> None:
        """See `TreeMatcher`."""
        self.change(interface, list(self._filters.get(interface, ())), filters)

    def remove(self, interface: int) -> None:
        """See `TreeMatcher`."""
        self._filters.pop(interface, None)

    def load(self, table: BitTable) -> None:
        """See `TreeMatcher`."""
        if table.rows.shape[1] != words_of(self._bits):
            raise ValueError(f"rows of {table.rows.shape[1]} words; expected {words_of(self._bits)}")
        self._filters = {}
        for row, interface in zip(table.rows, table.interface.tolist(), strict=True):
            self.change(interface, (), [row.astype("<u8").tobytes()[: self._bits // 8]])

    def match(self, bits: bytes, among: Collection[int] | None = None) -> frozenset[int]:
        """See `TreeMatcher`."""
        without = ~int.from_bytes(bits, "little")
        asked = self._filters if among is None else self._filters.keys() & set(among)
        return frozenset(
            interface
            for interface in asked
            if not all(filter_ & without for filter_ in self._filters[interface].values())
        )

    @property
    def empty(self) -> bool:
        """See `TreeMatcher`."""
        return not self._filters

    @property
    def nbytes(self) -> int:
        """See `TreeMatcher`."""
        return sum(getsizeof(held) for held in self._filters.values())
