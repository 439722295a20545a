"""Links from a constraint to the filters that contain it."""

from __future__ import annotations


class Links:
    """The filters that contain one constraint.

    Attributes:
        single: interface -> number of its filters that consist of this constraint alone.
        counted: number of each other filter -> its Bloom filter, which excludes most of them.
    """

    __slots__ = ("counted", "single")

    def __init__(self) -> None:
        self.single: dict[int, int] = {}
        self.counted: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self.single or self.counted)

    def add_single(self, interface: int) -> None:
        """Adds a filter that consists of this constraint alone."""
        self.single[interface] = self.single.get(interface, 0) + 1

    def drop_single(self, interface: int) -> None:
        """Removes such a filter."""
        if self.single[interface] == 1:
            del self.single[interface]
        else:
            self.single[interface] -= 1
