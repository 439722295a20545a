"""From a constraint to the filters that it is part of."""

from __future__ import annotations


class Links:
    """The filters that share one constraint.

    Attributes:
        single: interface -> how many of its filters consist of this constraint alone.
        counted: number of each other filter -> its Bloom filter, which decides about most of them.
    """

    __slots__ = ("counted", "single")

    def __init__(self) -> None:
        self.single: dict[int, int] = {}
        self.counted: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self.single or self.counted)

    def add_single(self, interface: int) -> None:
        """One more filter that is this constraint alone."""
        self.single[interface] = self.single.get(interface, 0) + 1

    def drop_single(self, interface: int) -> None:
        """Undo `add_single`."""
        if self.single[interface] == 1:
            del self.single[interface]
        else:
            self.single[interface] -= 1
