"""From a constraint to the filters that it is part of."""

from __future__ import annotations


class Links:
    """The filters that share one constraint, by interface, so that those of an excluded one are passed at
    once.

    Attributes:
        single: interface -> how many of its filters consist of this constraint alone.
        counted: interface -> its other filters: the bits that all their Bloom filters have, and the number of
            the filter, or the numbers if there are several (most often there is one).
    """

    __slots__ = ("counted", "single")

    def __init__(self) -> None:
        self.single: dict[int, int] = {}
        self.counted: dict[int, tuple[int, int | set[int]]] = {}

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

    def add(self, interface: int, number: int, bloom: int) -> None:
        """One more filter, of several constraints."""
        if interface not in self.counted:
            self.counted[interface] = bloom, number
            return
        common, numbers = self.counted[interface]
        if isinstance(numbers, int):
            numbers = {numbers}
        numbers.add(number)
        self.counted[interface] = common & bloom, numbers

    def drop(self, interface: int, number: int) -> None:
        """Undo `add`. The common bits stay as they are: fewer than there might be."""
        _, numbers = self.counted[interface]
        if isinstance(numbers, int) or len(numbers) == 1:
            del self.counted[interface]
        else:
            numbers.remove(number)
