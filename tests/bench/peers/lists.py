"""Lists of filters in a pool, which grow by doubling; peers whose index is such lists; parts of peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from router.native import I64, Array, Tuple
from tests.bench.peers import Boxes, Ints, Longs, Peer, callee, kernel, part_of, scales

#: Entries that are made at a time.
_CHUNK = 1 << 20
#: Numbers of the lists, filters and bounds of some entries.
Entries = tuple[Ints, Ints, Longs]


class Lists:
    """Unsorted lists of entries: a filter, and a bound if the lists are `bounded`.

    Attributes:
        at: int64 [lists], the first entry of each list in the pool.
        size, held: int32 [lists], its entries, and those for which it has room.
        filter: uint32, the pool; Numba would test the index that a signed number gives for a negative one.
        bound: int64, as long as the pool, or of length 0.
    """

    def __init__(self, lists: int, chunks: Callable[[], Iterator[Entries]], *, bounded: bool) -> None:
        """Makes lists without room for further entries; `chunks` yields all entries, at each call."""
        self.size, self.held = np.zeros(lists, np.int32), np.zeros(lists, np.int32)
        for numbers, _, _ in chunks():
            _count(self.held, numbers)
        self.at = np.cumsum(self.held, dtype=np.int64) - self.held
        self._used = np.array([self.held.sum(dtype=np.int64)])
        self.filter = np.zeros(self._used[0], np.uint32)
        self.bound = np.zeros(self._used[0] if bounded else 0, np.int64)
        for entries in chunks():
            self.add(entries)

    @property
    def state(self) -> tuple[Any, ...]:
        """For compiled code: at, size, filter, bound."""
        return self.at, self.size, self.filter, self.bound

    def add(self, entries: Entries) -> None:
        done = 0
        while (done := _add(self.state, self.held, self._used, entries, done)) < len(entries[0]):
            room = 2 * len(self.filter) + 2 * int(self.held[entries[0][done]]) + 64
            self.filter = np.concatenate([self.filter, np.zeros(room, np.uint32)])
            self.bound = np.concatenate([self.bound, np.zeros(room if len(self.bound) else 0, np.int64)])

    def discard(self, entries: Entries) -> None:
        """Removes a filter from lists that have it."""
        _discard(self.state, entries)


@kernel
def _count(size: Array, numbers: Array) -> None:
    for at in range(len(numbers)):
        size[numbers[at]] += 1


@kernel
def _add(state: Tuple, held: Array, used: Array, entries: Tuple, done: I64) -> I64:
    """Adds the entries from number `done` on; returns the first that the pool has no room for."""
    at, size, filters, bounds = state
    numbers, added, keys = entries
    for entry in range(done, len(numbers)):
        own = numbers[entry]
        if size[own] == held[own]:
            room = max(4, 2 * held[own])
            if used[0] + room > len(filters):
                return entry
            for offset in range(size[own]):
                filters[used[0] + offset] = filters[at[own] + offset]
                if len(bounds):
                    bounds[used[0] + offset] = bounds[at[own] + offset]
            at[own], held[own] = used[0], room
            used[0] += room
        place = at[own] + size[own]
        filters[place] = added[entry]
        if len(bounds):
            bounds[place] = keys[entry]
        size[own] += 1
    return len(numbers)


@kernel
def _discard(state: Tuple, entries: Tuple) -> None:
    at, size, filters, bounds = state
    numbers, gone, _ = entries
    for entry in range(len(numbers)):
        own = numbers[entry]
        place, last = at[own], at[own] + size[own] - 1
        while filters[place] != gone[entry]:
            place += 1
        filters[place] = filters[last]
        if len(bounds):
            bounds[place] = bounds[last]
        size[own] -= 1


class ListPeer(Peer):
    """A peer whose index is `Lists`; a filter's entries follow from its intervals.

    Attributes:
        bounded: see `Lists`.
        enter: the kernel, (layout, boxes, first, last, numbers, filters, bounds) -> (next, entries): writes
            the entries of the filters first to next - 1 to the last three arguments, of as many filters as
            there is room for; a filter whose count is -1 has none.
        layout: the arrays that `enter` reads, in a tuple; `_layout` unless a property says otherwise.
        lists: the lists.
    """

    bounded: ClassVar[bool] = False
    enter: ClassVar[Callable[..., tuple[int, int]]]

    _layout: tuple[Any, ...]

    @property
    def layout(self) -> tuple[Any, ...]:
        return self._layout

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        self._buffer = np.empty(_CHUNK, np.int32), np.empty(_CHUNK, np.int32), np.empty(_CHUNK, np.int64)

    def file(self, lists: int) -> None:
        """Makes `lists`, once `layout` is known."""
        self.lists = Lists(lists, lambda: self._entries(0, self.boxes.room), bounded=self.bounded)

    def _entries(self, first: int, last: int) -> Iterator[Entries]:
        while first < last:
            after, count = self.enter(self.layout, self.boxes.state, first, last, *self._buffer)
            if after == first:
                raise MemoryError(f"a filter has more than {_CHUNK:,} entries")
            numbers, filters, bounds = self._buffer
            yield numbers[:count], filters[:count], bounds[:count]
            first = after

    def _insert(self, number: int) -> None:
        for entries in self._entries(number, number + 1):
            self.lists.add(entries)

    def _delete(self, number: int) -> None:
        for entries in self._entries(number, number + 1):
            self.lists.discard(entries)


@kernel
def _enter(
    layout: Tuple, boxes: Tuple, first: I64, last: I64, numbers: Array, filters: Array, bounds: Array
) -> Tuple:
    lowest, scale, buckets, kinds = layout
    start, count, slot, low, high = boxes
    used = 0
    for filter_ in range(first, last):
        if used + 2 * count[filter_] > len(numbers):
            return filter_, used
        for row in range(start[filter_], start[filter_] + count[filter_]):
            own = slot[row]
            base = kinds * buckets * own
            lower = part_of(low[row], lowest[own], scale[own], buckets)
            filters[used], bounds[used] = filter_, low[row]
            if kinds == 3 and low[row] == high[row]:
                numbers[used] = base + 2 * buckets + lower
                used += 1
                continue
            upper = part_of(high[row], lowest[own], scale[own], buckets)
            numbers[used], numbers[used + 1] = base + lower, base + buckets + upper
            filters[used + 1], bounds[used + 1] = filter_, high[row]
            used += 2
    return last, used


class BucketPeer(ListPeer):
    """Lists by slot: buckets of lower bounds, of upper bounds, and of equalities if there are 3 `kinds`.

    Attributes:
        buckets: of a slot, of each kind.
    """

    buckets: ClassVar[int]
    kinds: ClassVar[int] = 2
    bounded = True
    enter = staticmethod(_enter)

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        domains = boxes.domains()
        self._layout = domains[0], scales(domains, self.buckets), self.buckets, self.kinds
        self.file(self.kinds * self.buckets * boxes.slots)


def halvings(boxes: Boxes, depth: int) -> tuple[Longs, npt.NDArray[np.float64], Longs]:
    """Cuts the domain of each slot in halves, down to 2**depth parts or to parts of a single key.

    A domain has one key more at each end, so that a part of a single key has no key from outside.

    Returns:
        The arguments lowest, scale and parts of `part_of`, by slot.
    """
    lowest, highest = boxes.domains()
    keys = highest.astype(np.float64) - lowest + 3
    parts = np.exp2(np.minimum(np.ceil(np.log2(keys)), depth))
    return lowest - 1, np.minimum(parts / keys, 1.0), parts.astype(np.int64)


@callee
def row_of(boxes: Tuple, number: I64, own: I64) -> I64:
    """Returns the row of a filter on a slot; -1: it has none."""
    first, count, slot, _, _ = boxes
    for row in range(first[number], first[number] + count[number]):
        if slot[row] == own:
            return row
    return -1


@callee
def all_of(lists: Tuple, own: I64, found: Array) -> I64:
    """Begins an answer with all filters of a list; returns how many."""
    at, size, filters, _ = lists
    for offset in range(size[own]):
        found[offset] = filters[at[own] + offset]
    return np.int64(size[own])


@callee
def count_down(filter_: I64, counters: Array, found: Array, number: I64) -> I64:
    """Counts an interval of a filter; writes the filter if it was the last; returns the numbers written."""
    counters[filter_] -= 1
    if counters[filter_] == 0:
        found[number] = filter_
        return number + 1
    return number
