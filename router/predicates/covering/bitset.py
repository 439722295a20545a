"""Sets of numbers as integers, an index that answers range queries with such sets, and numbers in order."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from router.predicates.covering.intervals import Key

K = TypeVar("K")
Text = TypeVar("Text", bytes, str)

#: A set of member numbers, as an integer: bit i is set if member i belongs to the set. One `&` or `|` of two
#: sets of 10,000 members takes less time than the comparison of two members.
Bits = int

#: Keys of a block of an index.
_BLOCK = 256
#: Numbers of a block of `CanonicalOrder`.
_ORDERED = 512
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

    Keys are kept in ascending order, in blocks of at most 256. With n different keys, a query takes one
    bisection and at most 128 steps; the first query after keys were added takes at most n/128 unions more.
    A query steps from where the last query ended, if that was in the same block: queries for many bounds in
    ascending order take few steps each.
    """

    def __init__(self) -> None:
        self._keys: list[list[Key]] = []
        #: The members with each key: the number of a single one, or the complement of the set of several.
        self._held: list[list[int]] = []
        #: The first key and the members of each block.
        self._firsts: list[Key] = []
        self._totals: list[Bits] = []
        #: The members with keys in earlier blocks, for the first `_valid` blocks.
        self._before: list[Bits] = []
        self._valid = 0
        #: Block and position of the last query, and its answer.
        self._last: tuple[int, int, Bits] = (-1, 0, 0)

    def add(self, key: Key, bit: Bits) -> None:
        """Adds a member that the index does not hold yet."""
        self._last = (-1, 0, 0)
        if not self._firsts:
            self._keys, self._held, self._firsts = [[key]], [[bit.bit_length() - 1]], [key]
            self._totals, self._before, self._valid = [bit], [0], 1
            return
        number = max(bisect_right(self._firsts, key) - 1, 0)
        keys, held = self._keys[number], self._held[number]
        position = bisect_left(keys, key)
        if position < len(keys) and keys[position] == key:
            held[position] = ~(_set_of(held[position]) | bit)
        else:
            keys.insert(position, key)
            held.insert(position, bit.bit_length() - 1)
            self._firsts[number] = keys[0]
        self._totals[number] |= bit
        self._valid = min(self._valid, number + 1)
        if len(keys) > _BLOCK:
            self._split(number)

    def remove(self, gone: Bits) -> None:
        """Removes members."""
        self._last = (-1, 0, 0)
        number = 0
        flags = gone.to_bytes(gone.bit_length() // 8 + 1, "little")
        while number < len(self._keys):
            kept = [
                (key, left)
                for key, held in zip(self._keys[number], self._held[number], strict=True)
                if (left := _left(held, gone, flags)) is not None
            ]
            if kept:
                self._keys[number] = [key for key, _ in kept]
                self._held[number] = [left for _, left in kept]
                self._firsts[number] = kept[0][0]
                self._totals[number] &= ~gone
                number += 1
            else:
                for table in (self._keys, self._held, self._firsts, self._totals, self._before):
                    del table[number]
            self._valid = min(self._valid, number)
        self._valid = min(1, len(self._keys))
        self._before[:1] = [0] * self._valid

    def below(self, bound: Key) -> Bits:
        """Returns the members whose key is less than `bound`."""
        number = bisect_left(self._firsts, bound) - 1
        return 0 if number < 0 else self._up_to(number, bisect_left(self._keys[number], bound))

    def at_most(self, bound: Key) -> Bits:
        """Returns the members whose key is `bound` or less."""
        number = bisect_right(self._firsts, bound) - 1
        return 0 if number < 0 else self._up_to(number, bisect_right(self._keys[number], bound))

    def _up_to(self, number: int, position: int) -> Bits:
        if not self._valid:
            self._before[0], self._valid = 0, 1
        while self._valid <= number:
            last = self._valid - 1
            self._before[self._valid] = self._before[last] | self._totals[last]
            self._valid += 1
        held = self._held[number]
        block, at, found = self._last
        if block != number:
            at, found = 0, self._before[number]
            if 2 * position > len(held):
                # Fewer are left out.
                at, found = len(held), found | self._totals[number]
        if at < position:
            found |= _union(held[at:position])
        elif at > position:
            found &= ~_union(held[position:at])
        self._last = (number, position, found)
        return found

    def _split(self, number: int) -> None:
        keys, held = self._keys[number], self._held[number]
        half = len(keys) // 2
        self._keys[number : number + 1] = [keys[:half], keys[half:]]
        self._held[number : number + 1] = [held[:half], held[half:]]
        self._firsts.insert(number + 1, keys[half])
        self._totals[number : number + 1] = [_union(held[:half]), _union(held[half:])]
        self._before.insert(number + 1, 0)
        self._valid = min(self._valid, number + 1)


def _set_of(held: int) -> Bits:
    """The members that an entry of `Thresholds` stands for."""
    return ~held if held < 0 else 1 << held


def _left(held: int, gone: Bits, flags: bytes) -> int | None:
    """An entry of `Thresholds` without the members that are gone; None: it has no other."""
    if held >= 0:
        return None if held >> 3 < len(flags) and flags[held >> 3] >> (held & 7) & 1 else held
    left = ~held & ~gone
    if not left & (left - 1):
        return left.bit_length() - 1 if left else None
    return ~left


def _union(entries: list[int]) -> Bits:
    """The members that some entries of `Thresholds` stand for."""
    found: Bits = 0
    single = []
    for held in entries:
        if held < 0:
            found |= ~held
        else:
            single.append(held)
    return found | bits_of(single) if single else found


class CanonicalOrder(Generic[Text]):
    """Numbers of a pool in ascending order of their keys, in blocks of at most 512.

    The numbers of a set are picked from the order in one pass, 50,000 in some 2 ms: faster than sorting them.
    """

    def __init__(self) -> None:
        self._keys: list[list[Text]] = []
        self._numbers: list[array[int]] = []
        #: The first key of each block.
        self._firsts: list[Text] = []
        #: All numbers in order; None: not computed since a number was added.
        self._all: npt.NDArray[np.int64] | None = None
        self._count = 0

    def __len__(self) -> int:
        """Returns the number of numbers."""
        return self._count

    def add(self, key: Text, number: int) -> None:
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
        if len(keys) > _ORDERED:
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
