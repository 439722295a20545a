"""Sets of numbers as integers, and an index that answers range queries with such sets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from typing import TypeVar

import numpy as np

from router.predicates.covering.intervals import Key

K = TypeVar("K")

#: A set of member numbers, as an integer: bit i is set if member i belongs to the set. One `&` or `|` of two
#: sets of 10,000 members takes less time than the comparison of two members.
Bits = int

#: Keys of a block of an index.
_BLOCK = 256
#: A set of more bits and more numbers is read as an array: each step on the whole of it takes a microsecond.
_LARGE, _FEW = 256, 32
#: So many numbers are collected in an array.
_MANY = 64


def numbers_in(bits: Bits) -> Iterator[int]:
    """Yields the numbers of a set, in ascending order."""
    size = bits.bit_length()
    if size > _LARGE and bits.bit_count() > _FEW:
        octets = np.frombuffer(bits.to_bytes(size // 8 + 1, "little"), np.uint8)
        yield from np.flatnonzero(np.unpackbits(octets, bitorder="little")).tolist()
        return
    while bits:
        lowest = bits & -bits
        bits ^= lowest
        yield lowest.bit_length() - 1


def bits_of(numbers: Collection[int]) -> Bits:
    """Returns the set of some numbers."""
    if len(numbers) < _MANY:
        found = bytearray(max(numbers, default=0) // 8 + 1)
        for number in numbers:
            found[number >> 3] |= 1 << (number & 7)
        return int.from_bytes(found, "little")
    flags = np.zeros(max(numbers) + 1, np.bool_)
    flags[np.fromiter(numbers, np.int64, len(numbers))] = True
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def remove_from(table: dict[K, Bits], gone: Bits) -> None:
    """Removes numbers from all sets of a table."""
    for key in list(table):
        if left := table[key] & ~gone:
            table[key] = left
        else:
            del table[key]


class Thresholds:
    """An index of members by a key of one total order.

    The keys of all members are kept in ascending order, in blocks of at most 256. With n members, a query
    takes one bisection and at most 128 steps; the first query after members were added takes at most n/128
    unions more.
    """

    def __init__(self) -> None:
        #: Keys of each block, and the number of the member of each.
        self._keys: list[list[Key]] = []
        self._numbers: list[list[int]] = []
        #: The first key and the members of each block.
        self._firsts: list[Key] = []
        self._totals: list[Bits] = []
        #: The members of earlier blocks, for the first `_valid` blocks.
        self._before: list[Bits] = []
        self._valid = 0

    def add(self, key: Key, bit: Bits) -> None:
        """Adds a member that the index does not hold yet."""
        if not self._firsts:
            self._put(0, 0, [(key, bit.bit_length() - 1)])
            return
        block = max(bisect_right(self._firsts, key) - 1, 0)
        keys, numbers = self._keys[block], self._numbers[block]
        position = bisect_right(keys, key)
        keys.insert(position, key)
        numbers.insert(position, bit.bit_length() - 1)
        self._firsts[block] = keys[0]
        self._totals[block] |= bit
        self._valid = min(self._valid, block + 1)
        if len(keys) > _BLOCK:
            pairs, half = list(zip(keys, numbers, strict=True)), len(keys) // 2
            self._put(block, block + 1, pairs[:half], pairs[half:])

    def remove(self, gone: Bits) -> None:
        removed = set(numbers_in(gone))
        for block in reversed(range(len(self._keys))):
            if self._totals[block] & gone:
                pairs = zip(self._keys[block], self._numbers[block], strict=True)
                left = [(key, number) for key, number in pairs if number not in removed]
                self._put(block, block + 1, *([left] if left else ()))

    def below(self, bound: Key) -> Bits:
        """Returns the members whose key is less than `bound`."""
        block = bisect_left(self._firsts, bound) - 1
        return 0 if block < 0 else self._up_to(block, bisect_left(self._keys[block], bound))

    def at_most(self, bound: Key) -> Bits:
        """Returns the members whose key is `bound` or less."""
        block = bisect_right(self._firsts, bound) - 1
        return 0 if block < 0 else self._up_to(block, bisect_right(self._keys[block], bound))

    def _up_to(self, block: int, position: int) -> Bits:
        while self._valid <= block:
            last = self._valid - 1
            self._before[self._valid] = self._before[last] | self._totals[last] if self._valid else 0
            self._valid += 1
        numbers = self._numbers[block]
        if 2 * position > len(numbers):
            # Fewer are left out.
            return self._before[block] | self._totals[block] & ~bits_of(numbers[position:])
        return self._before[block] | bits_of(numbers[:position])

    def _put(self, start: int, end: int, *blocks: list[tuple[Key, int]]) -> None:
        """Puts blocks in the place of those from `start` to before `end`."""
        self._keys[start:end] = [[key for key, _ in pairs] for pairs in blocks]
        self._numbers[start:end] = [[number for _, number in pairs] for pairs in blocks]
        self._firsts[start:end] = [pairs[0][0] for pairs in blocks]
        self._totals[start:end] = [bits_of(numbers) for numbers in self._numbers[start : start + len(blocks)]]
        self._before[start:end] = [0] * len(blocks)
        self._valid = min(self._valid, start)
