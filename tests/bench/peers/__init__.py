"""Published matching algorithms, rebuilt by the means of the engine `compiled`, for a comparison with it.

A filter is a *box*: closed intervals of int64 keys on slots (a slot is a name and a type), at most one
interval a slot. An equality is the interval [v, v]. A message is a *point*: distinct slots, and the key of
each. A slot that the message lacks satisfies no interval.

Another peer joins by a class derived from `Peer` (or `lists.ListPeer`) and a line in `PEERS`;
`tests/properties/matching/test_peers.py` holds each equal to `brute`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from router.native import I64, Array, Compiler, Flag, Tuple
from router.registry import Registry

COMPILER = Compiler("peers", "tests.bench.peers.*")
kernel, callee = COMPILER.kernel, COMPILER.callee

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
LOWEST, HIGHEST = -(2**63), 2**63 - 1


class Boxes:
    """Filters, by their numbers from 0, and the rows of their intervals.

    Attributes:
        slots: the number of slots.
        count: int32 [room], the intervals of each filter; 0: every message matches; -1: there is no filter.
        first: int64 [room], the first row of each filter; its rows are consecutive, in the order of slots.
        slot, low, high: int32, int64 and int64 by row.
    """

    def __init__(self, slots: int, start: Longs, slot: Ints, low: Longs, high: Longs, spare: int = 0) -> None:
        """Takes filter f as the rows start[f] to start[f + 1] - 1; `spare` more numbers have no filter."""
        self.slots = slots
        self.count = np.concatenate([np.diff(start), np.full(spare, -1)]).astype(np.int32)
        self.first = np.concatenate([start[:-1], np.zeros(spare, np.int64)])
        self.slot, self.low, self.high = slot, low, high
        self._used = len(slot)

    @property
    def room(self) -> int:
        """The number of numbers of filters."""
        return len(self.count)

    @property
    def state(self) -> tuple[Any, ...]:
        """The argument `boxes` of compiled code."""
        return self.first, self.count, self.slot, self.low, self.high

    def rows(self, number: int) -> tuple[Ints, Longs, Longs]:
        """Returns slots and bounds of a filter."""
        rows = slice(self.first[number], self.first[number] + self.count[number])
        return self.slot[rows], self.low[rows], self.high[rows]

    def domains(self) -> tuple[Longs, Longs]:
        """The smallest and largest bound of each slot that is no end of all keys; 0 if there is none."""
        lowest, highest = np.full(self.slots, HIGHEST), np.full(self.slots, LOWEST)
        for bounds in (self.low[: self._used], self.high[: self._used]):
            inner = (bounds != LOWEST) & (bounds != HIGHEST)
            np.minimum.at(lowest, self.slot[: self._used][inner], bounds[inner])
            np.maximum.at(highest, self.slot[: self._used][inner], bounds[inner])
        empty = lowest > highest
        return np.where(empty, 0, lowest), np.where(empty, 0, highest)

    def put(self, number: int, slot: Ints, low: Longs, high: Longs) -> None:
        """Gives a number without a filter the intervals of a filter, in the order of slots."""
        assert self.count[number] == -1
        end = self._used + len(slot)
        if end > len(self.slot):
            self.slot, self.low, self.high = (
                np.concatenate([held, np.zeros(end, held.dtype)]) for held in (self.slot, self.low, self.high)
            )
        self.first[number], self.count[number] = self._used, len(slot)
        self.slot[self._used : end], self.low[self._used : end], self.high[self._used : end] = slot, low, high
        self._used = end


class Peer(ABC):
    """An index over `Boxes`, and the numbers of the filters that a point satisfies.

    Attributes:
        exact: whether the answer has no filter but those; otherwise it has at least those.
        search: the kernel, (state, slots, keys, found) -> number of filters that it has written to `found`
            (int32 [room]), in any order, each once; it allocates nothing.
        state: the arrays that `search` reads and writes, in nested tuples.
    """

    exact: ClassVar[bool] = True
    search: ClassVar[Callable[..., int]]

    def __init__(self, boxes: Boxes) -> None:
        """Builds the index. A derived class calls this first; the boxes belong to the peer from now on.

        Raises:
            MemoryError: the index would be too large; the message has the reason.
        """
        self.boxes = boxes
        self.found = np.empty(boxes.room, np.int32)

    @property
    def state(self) -> tuple[Any, ...]:
        return ()

    @abstractmethod
    def _insert(self, number: int) -> None:
        """Adds a filter that `boxes` has already."""

    @abstractmethod
    def _delete(self, number: int) -> None:
        """Removes a filter that `boxes` still has."""

    def prepare(self, slots: Ints, keys: Longs) -> tuple[Any, ...]:
        """Returns a point as the arguments of `run`."""
        return self.state, slots, keys, self.found

    def run(self, *prepared: Any) -> int:
        """Matches a point, and returns how many filters were found: what is timed."""
        return self.search(*prepared)

    def prepare_batch(self, points: Sequence[tuple[Ints, Longs]]) -> tuple[Any, ...]:
        """Returns points as the arguments of `batch_of`, for a search in compiled code."""
        starts = np.cumsum([0, *(len(slots) for slots, _ in points)])
        slots, keys = (np.concatenate(parts) for parts in zip(*points, strict=True))
        return self.state, starts, slots, keys, self.found

    def idle(self, *prepared: Any) -> int:
        """Takes the same arguments and searches nothing: what of `run` is not the algorithm."""
        return int(_nothing(*prepared))

    def numbers(self, count: int) -> Ints:
        """Returns the filters that the last `run` has found; valid until the next one."""
        return self.found[:count]

    def match(self, slots: Ints, keys: Longs) -> Ints:
        """Returns the numbers of the filters that a point satisfies; valid until the next call."""
        return self.numbers(self.run(*self.prepare(slots, keys)))

    def insert(self, number: int, slot: Ints, low: Longs, high: Longs) -> None:
        """Adds a filter under a number that has none; `slot` is ascending."""
        self.boxes.put(number, slot, low, high)
        self._insert(number)

    def delete(self, number: int) -> None:
        self._delete(number)
        self.boxes.count[number] = -1

    @property
    def nbytes(self) -> int:
        """The memory of `state`, in bytes; with the rows of the filters if `search` reads them."""
        return sum(array.nbytes for array in _arrays(self.state))


def _arrays(state: tuple[Any, ...]) -> list[npt.NDArray[np.generic]]:
    parts = [_arrays(part) if isinstance(part, tuple) else [part] for part in state]
    return [array for part in parts for array in part if isinstance(array, np.ndarray)]


@kernel
def _nothing(_state: Tuple, _slots: Array, _keys: Array, _found: Array) -> I64:
    return 0


@cache
def batch_of(search: Callable[..., int]) -> Callable[..., int]:
    """Returns what searches for points in turn, and returns how many filters were found."""

    @callee
    def run(state: Tuple, starts: Array, slots: Array, keys: Array, found: Array) -> I64:
        number = 0
        for at in range(len(starts) - 1):
            own = slice(starts[at], starts[at + 1])
            number += search(state, slots[own], keys[own], found)
        return number

    return run


#: Name of a row of the benchmark -> its peer.
PEERS: Registry[type[Peer]] = Registry("peer")
PEERS.register_lazily("brute", "tests.bench.peers.brute:Brute", "Every filter is verified.")
PEERS.register_lazily("rein", "tests.bench.peers.rein:Rein", "REIN: the filters that fail are marked.")
PEERS.register_lazily("tama", "tests.bench.peers.tama:Tama", "TAMA: a tree of each slot, filters count down.")
PEERS.register_lazily("tama-approximate", "tests.bench.peers.tama:ApproximateTama", "TAMA as published.")
PEERS.register_lazily(
    "bitvectors", "tests.bench.peers.bitvectors:BitVectors", "The filters that fail are united, as bitmaps."
)
PEERS.register_lazily("counting", "tests.bench.peers.counting:Counting", "Satisfied bounds are counted.")
PEERS.register_lazily("betree-3", "tests.bench.peers.betree:BeTree", "BE-Tree, 3 filters a leaf.")
PEERS.register_lazily("betree-20", "tests.bench.peers.betree:BeTree20", "BE-Tree, 20 filters a leaf.")
PEERS.register_lazily("betree-100", "tests.bench.peers.betree:BeTree100", "BE-Tree, 100 filters a leaf.")
PEERS.register_lazily("opindex", "tests.bench.peers.opindex:OpIndex", "OpIndex: lists by pivot, scanned.")
PEERS.register_lazily("opindex-sorted", "tests.bench.peers.opindex:SortedOpIndex", "OpIndex, lists sorted.")
PEERS.register_lazily("htree", "tests.bench.peers.htree:HTree", "H-Tree: a grid of 8 cells on 8 slots.")
PEERS.register_lazily("compiled", "tests.bench.peers.engines:Compiled", "The engine of routers.")
PEERS.register_lazily("duckdb", "tests.bench.peers.engines:DuckDb", "A query for each message, by DuckDB.")


def scratch(slots: int) -> tuple[Longs, Longs, Longs]:
    """Returns space for a message by slot: keys, epochs, and the epoch of the message that is there."""
    return np.zeros(slots, np.int64), np.zeros(slots, np.int64), np.zeros(1, np.int64)


@callee
def spread(space: Tuple, slots: Array, keys: Array) -> None:
    """Puts a message into `scratch`."""
    key_of, epochs, epoch = space
    epoch[0] += 1
    for at in range(len(slots)):
        key_of[slots[at]] = keys[at]
        epochs[slots[at]] = epoch[0]


@callee
def accepts(boxes: Tuple, number: I64, space: Tuple) -> Flag:
    """Whether the message in `scratch` satisfies all intervals of a filter that exists."""
    first, count, slot, low, high = boxes
    key_of, epochs, epoch = space
    for row in range(first[number], first[number] + count[number]):
        # Numba tests signed indices for negative ones.
        own = np.uint32(slot[row])
        key = key_of[own]
        if epochs[own] != epoch[0] or key < low[row] or key > high[row]:
            return False
    return True


@callee
def part_of(key: I64, lowest: I64, scale: float, parts: I64) -> I64:
    """Returns the part of a domain in which a key is, of `parts` parts of about the same width.

    The function is monotonic over all keys; keys beyond the domain are in the first or the last part.

    Args:
        lowest: the smallest key of the domain.
        scale: see `scales`.
    """
    if key <= lowest:
        return 0
    return np.int64(min(np.float64(np.uint64(key) - np.uint64(lowest)) * scale, parts - 1.0))


def scales(domains: tuple[Longs, Longs], parts: int) -> npt.NDArray[np.float64]:
    """Returns the argument `scale` of `part_of` by slot, for the result of `Boxes.domains`."""
    lowest, highest = (bound.astype(np.float64) for bound in domains)
    return np.minimum(parts / (highest - lowest + 1), 1.0)
