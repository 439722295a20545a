"""Sets of numbers as integers, and an ordered index that answers range queries with such sets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from itertools import islice

from router.predicates.covering.intervals import Key

#: A set of member numbers, as an integer: bit i is set if member i belongs to the set. One `&` or `|` of two
#: sets of 10,000 members takes less time than the comparison of two members.
Bits = int

_BLOCK = 64
#: A set with fewer numbers than one in so many bits is read bit by bit.
_DENSE = 256
#: The numbers of each set of eight bits.
_IN_BYTE = [tuple(number for number in range(8) if byte >> number & 1) for byte in range(256)]


def numbers_in(bits: Bits) -> Iterator[int]:
    """Yields the numbers of a set, in ascending order."""
    size = bits.bit_length()
    if size > _DENSE and bits.bit_count() * _DENSE > size:
        # Byte by byte: a step on the whole takes time that grows with its size.
        base = -8
        for byte in bits.to_bytes(size // 8 + 1, "little"):
            base += 8
            if byte:
                for number in _IN_BYTE[byte]:
                    yield base + number
        return
    while bits:
        lowest = bits & -bits
        bits ^= lowest
        yield lowest.bit_length() - 1


def bits_of(numbers: Collection[int]) -> Bits:
    """Returns the set of some numbers."""
    found = bytearray(max(numbers, default=0) // 8 + 1)
    for number in numbers:
        found[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(found, "little")


def lowest(bits: Bits, count: int) -> Bits:
    """Returns the set of the `count` least numbers of a set; the set itself if it has no more."""
    found: Bits = 0
    for number in islice(numbers_in(bits), max(count, 0)):
        found |= 1 << number
    return found


class Thresholds:
    """An index of members by a key of one total order.

    Keys are kept in ascending order, in blocks of at most 64; each block stores the union of the members of
    all earlier blocks. With n different keys, a query takes one bisection and at most 64 unions; adding a
    key takes at most n/32 unions.
    """

    def __init__(self) -> None:
        self._keys: list[list[Key]] = []
        self._bits: list[list[Bits]] = []
        #: The first key of each block, and the members with keys in earlier blocks.
        self._firsts: list[Key] = []
        self._before: list[Bits] = []

    def add(self, key: Key, bit: Bits) -> None:
        """Adds a member that the index does not hold yet."""
        if not self._firsts:
            self._keys, self._bits, self._firsts, self._before = [[key]], [[bit]], [key], [0]
            return
        number = max(bisect_right(self._firsts, key) - 1, 0)
        keys, bits = self._keys[number], self._bits[number]
        position = bisect_left(keys, key)
        if position < len(keys) and keys[position] == key:
            bits[position] |= bit
        else:
            keys.insert(position, key)
            bits.insert(position, bit)
            self._firsts[number] = keys[0]
        for later in range(number + 1, len(self._before)):
            self._before[later] |= bit
        if len(keys) > _BLOCK:
            self._split(number)

    def keep_only(self, members: Bits) -> None:
        """Removes every member that is not in `members`."""
        blocks = list(zip(self._keys, self._bits, strict=True))
        self._keys, self._bits, self._firsts, self._before = [], [], [], []
        before: Bits = 0
        for keys, bits in blocks:
            kept = [(key, some & members) for key, some in zip(keys, bits, strict=True) if some & members]
            if kept:
                self._keys.append([key for key, _ in kept])
                self._bits.append([some for _, some in kept])
                self._firsts.append(kept[0][0])
                self._before.append(before)
                for _, some in kept:
                    before |= some

    def below(self, bound: Key) -> Bits:
        """Returns the members whose key is less than `bound`."""
        number = bisect_left(self._firsts, bound) - 1
        return 0 if number < 0 else self._up_to(number, bisect_left(self._keys[number], bound))

    def at_most(self, bound: Key) -> Bits:
        """Returns the members whose key is `bound` or less."""
        number = bisect_right(self._firsts, bound) - 1
        return 0 if number < 0 else self._up_to(number, bisect_right(self._keys[number], bound))

    def _up_to(self, number: int, position: int) -> Bits:
        found = self._before[number]
        for bits in self._bits[number][:position]:
            found |= bits
        return found

    def _split(self, number: int) -> None:
        keys, bits = self._keys[number], self._bits[number]
        half = len(keys) // 2
        before = self._before[number]
        for some in bits[:half]:
            before |= some
        self._keys[number : number + 1] = [keys[:half], keys[half:]]
        self._bits[number : number + 1] = [bits[:half], bits[half:]]
        self._firsts.insert(number + 1, keys[half])
        self._before.insert(number + 1, before)
