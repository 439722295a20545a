"""The sieve of a segment: bitmaps that decide wide filters of intervals without reading their records.

The filters of a sieve have intervals alone, each on a slot that many filters constrain; one by one, too many
would be verified. The keys of each slot are cut into cells at bounds of the filters. Each cell, and the
absence of the slot, has a bit for each filter: whether a key there can be within the filter's interval. The
filters whose access is on one slot are a group. A search is an `and` of bitmaps, one for each slot of a
group, over the groups on slots that the message has. If few bits are left, their filters are verified;
otherwise the filters that fail are cleared: their bounds are next to the key, within its cell, in the sorted
bounds of the slot, so that a filter costs a write and not a verification.

Sources: the bitmap indices of O'Neil and Quass ("Improved query performance with variant indexes", SIGMOD
1997), and REIN, which marks the filters that fail (Qian et al., INFOCOM 2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from router.matching.compiled import ACCESSES, HIGHEST, KEY, LOWEST, Part, Search, callee, kernel
from router.matching.compiled.verifying import reached, spend, verify
from router.native import (
    I64,
    Address,
    Array,
    Flag,
    Tuple,
    byte_at,
    int_at,
    long_at,
    lowest_bit,
    put_byte,
    put_int,
    put_long,
)

_Ints = npt.NDArray[np.int32]
_Longs = npt.NDArray[np.int64]
#: Slots of a sieve, and cells of a slot, at most; bits of a filter, of a large group, in all bitmaps: beyond
#: them, a slot has fewer cells.
SLOTS, _CELLS, _BITS = 128, 32, 1024
#: Where compiled code finds the arrays of a `Sieve`.
SIEVE_PARTS = [Part(part) for part in range(Part.SIEVE_SLOTS, Part.SIEVE_COUNT)]
#: Bounds that are cleared in the time of a verification; filters that are verified at least.
_CLEARED, _TRIED = 32, 64
#: Words of bitmaps, and cleared bounds, of a step of a search: exponents of 2.
_WORDS, _BOUNDS = 4, 3
#: Columns of `Sieve.groups`: the first posting, word and slot of a group.
_POSTING, _WORD, _MEMBER, _GROUP = range(4)
#: Rows of a slot in `Sieve.begins`.
_LOWER, _UPPER = 0, 1
#: Columns of `Sieve.chosen`: the cell of a slot, and the address of its bitmap.
_CELL, _ROW, _CHOSEN = range(3)


class Sieve(NamedTuple):
    """Arrays that compiled code reads, of D slots.

    Attributes:
        slots: int32 [D].
        cuts: int64 [D, cells - 1], the least key of each cell but the first, ascending.
        possible: int64 [D, cells + 1, words], bit b % 64 of word b // 64 for the filter of number b: a key in
            the cell can be within its interval. The last bitmap of a slot is of its absence.
        bounds: int64, the lower bounds of each slot, ascending, and behind them its upper bounds.
        filters: int32, the number of the filter of each bound.
        begins: int64 [D, 2, cells + 1], of lower and upper bounds: the first one in each cell, and the end.
        groups: int64 [D + 1, _GROUP], of the group of each slot, and of the end. A group begins with a word.
        members: int32, the slots of each group, by their index in `slots`.
        chosen, rows, left: memory of a search: int64 [D, _CHOSEN], int64 [D] and int64 [words].
    """

    slots: _Ints
    cuts: _Longs
    possible: _Longs
    bounds: _Longs
    filters: _Ints
    begins: _Longs
    groups: _Longs
    members: _Ints
    chosen: _Longs
    rows: _Longs
    left: _Longs


def sieve_of(accesses: _Longs, starts: _Ints, tests: _Ints, lows: _Longs, highs: _Longs) -> Sieve:
    """Returns the sieve of F consecutive postings on a bounded number of slots.

    Args:
        accesses: int64 [F], the slot of the access of each filter, ascending.
        starts: int32 [F + 1], the first record of each filter, and the end of the last one.
        tests, lows, highs: of the records of the segment, see `NormalTable`.
    """
    own = slice(starts[0], starts[-1])
    slot, lows, highs = tests[own] // ACCESSES, lows[own], highs[own]
    counts = np.bincount(slot)
    slots = np.flatnonzero(counts).astype(np.int32)
    index = np.zeros(len(counts), np.int32)
    index[slots] = np.arange(len(slots))
    places, records = index[slot], np.diff(starts)
    groups, number = _groups(index[accesses], len(slots))
    used = np.zeros((len(slots), len(slots)), np.bool_)
    used[np.repeat(index[accesses], records), places] = True
    groups[1:, _MEMBER] = np.cumsum(used.sum(axis=1))
    filters = np.repeat(number, records)
    by_slot = np.split(np.argsort(places, kind="stable"), np.cumsum(counts[slots])[:-1])
    cuts, begins, bounds, of_bounds = _bounds(by_slot, filters, lows, highs)
    words = groups[-1, _WORD]
    possible = np.full((len(slots), cuts.shape[1] + 2, words), -1, np.int64)
    # No filter has the bits behind the last one of a group.
    sizes = np.diff(groups[:, _POSTING])
    for group in np.flatnonzero(sizes % 64):
        possible[group, :, groups[group + 1, _WORD] - 1] = (1 << int(sizes[group] % 64)) - 1
    _fill(filters, places, lows, highs, cuts, possible)
    members = np.nonzero(used)[1].astype(np.int32)
    memory = [np.empty(shape, np.int64) for shape in ((len(slots), _CHOSEN), len(slots), words)]
    return Sieve(slots, cuts, possible, bounds, of_bounds, begins, groups, members, *memory)


def _groups(access: _Ints, slots: int) -> tuple[_Longs, _Ints]:
    """Returns `Sieve.groups` without members, and the number of each filter.

    Args:
        access: of each filter, the index of the slot of its access, ascending.
    """
    groups = np.zeros((slots + 1, _GROUP), np.int64)
    groups[:, _POSTING] = np.searchsorted(access, np.arange(slots + 1))
    groups[1:, _WORD] = np.cumsum((np.diff(groups[:, _POSTING]) + 63) >> 6)
    shift = 64 * groups[:, _WORD] - groups[:, _POSTING]
    return groups, (np.arange(len(access)) + shift[access]).astype(np.int32)


def _bounds(
    by_slot: Sequence[_Longs], filters: _Ints, lows: _Longs, highs: _Longs
) -> tuple[_Longs, _Longs, _Longs, _Ints]:
    """Returns `cuts`, `begins`, `bounds` and `filters` of a `Sieve`.

    Args:
        by_slot: the records of each slot.
        filters, lows, highs: of each record, the number of its filter and its interval.
    """
    cells = min(_CELLS, _BITS // len(by_slot) - 1)
    cuts = np.empty((len(by_slot), cells - 1), np.int64)
    begins = np.empty((len(by_slot), 2, cells + 1), np.int64)
    bounds, of_bounds, end = list[_Longs](), list[_Ints](), 0
    for slot, records in enumerate(by_slot):
        orders = [records[np.argsort(values[records])] for values in (lows, highs)]
        low, high = lows[orders[_LOWER]], highs[orders[_UPPER]]
        cuts[slot] = _cuts(np.concatenate([low[low != LOWEST], high[high != HIGHEST] + 1]), cells)
        for side, values in enumerate((low, high)):
            begins[slot, side] = end + np.searchsorted(values, [LOWEST, *cuts[slot], HIGHEST])
            end += len(values)
            begins[slot, side, -1] = end
        bounds += [low, high]
        of_bounds += [filters[order] for order in orders]
    return cuts, begins, np.concatenate(bounds), np.concatenate(of_bounds)


def _cuts(bounds: _Longs, cells: int) -> _Longs:
    """Returns the cuts of a slot: quantiles of the bounds, and the ends of their widest gap."""
    # The lower and the upper bounds are sorted already.
    bounds = np.sort(bounds, kind="stable")
    different = bounds[np.diff(bounds, prepend=LOWEST) != 0]
    if len(different) < cells:
        return np.concatenate([different, np.full(cells - 1 - len(different), HIGHEST)])
    gap = int(np.diff(different).argmax())
    places = np.linspace(0, len(bounds), cells - 1)[1:-1].astype(np.int64)
    return np.sort(np.concatenate([bounds[places], different[gap : gap + 2]]))


@kernel
def _fill(filters: Array, places: Array, lows: Array, highs: Array, cuts: Array, possible: Array) -> None:
    """Clears the bits of the cells, and of absence, in which a filter cannot be satisfied."""
    for at in range(len(filters)):
        own, word, bit = places[at], filters[at] >> 6, np.int64(1) << (filters[at] & 63)
        first = np.searchsorted(cuts[own], lows[at], side="right")
        last = np.searchsorted(cuts[own], highs[at], side="right")
        for cell in range(first):
            possible[own, cell, word] &= ~bit
        for cell in range(last + 1, possible.shape[1]):
            possible[own, cell, word] &= ~bit


@callee
def search_sieve(search: Address, segment: Address) -> Flag:
    """Matches the postings of the sieve; returns True as the functions on postings do.

    Filters that are possible are verified one by one, which ends early where few interfaces are asked about,
    until that has taken about as long as clearing, or will take longer at the rates so far: of possible
    filters in a word, and of verified filters for an interface found.
    """
    bounds, words = _choose(search, segment)
    most, tried, before = bounds // _CLEARED, 0, long_at(search, Search.NUMBER)
    chosen, groups = long_at(segment, Part.SIEVE_CHOSEN), long_at(segment, Part.SIEVE_GROUPS)
    left, rows = long_at(segment, Part.SIEVE_LEFT), long_at(segment, Part.SIEVE_ROWS)
    absent, begin, done = long_at(segment, Part.SIEVE_CELLS), -1, 0
    for group in range(long_at(segment, Part.SIEVE_COUNT)):
        if long_at(chosen, group * _CHOSEN + _CELL) == absent:
            continue
        count, row = _gather(segment, group), group * _GROUP
        first, end = long_at(groups, row + _WORD), long_at(groups, row + _GROUP + _WORD)
        posting = long_at(segment, Part.SIEVE_START) + long_at(groups, row + _POSTING)
        if spend(search, (end - first) * count >> _WORDS):
            return True
        for word in range(first, end):
            bits, at = np.int64(-1), 0
            while bits != 0 and at < count:
                bits &= long_at(long_at(rows, at), word)
                at += 1
            if begin >= 0:
                put_long(left, word, bits)
                continue
            while bits != 0:
                at = posting + 64 * (word - first) + lowest_bit(bits)
                if verify(search, segment, at, at + 1, 0):
                    return True
                bits &= bits - 1
                tried += 1
            done += 1
            if tried > _TRIED:
                number = long_at(search, Search.NUMBER)
                open_ = long_at(search, Search.LIMIT) - number
                if tried > _TRIED + most or (
                    tried * (words - done) > most * done and open_ * tried > most * (number - before)
                ):
                    begin = word + 1
    return begin >= 0 and (_clear(search, segment) or _take(search, segment, begin))


@callee
def _choose(search: Address, segment: Address) -> Tuple:
    """Writes `Sieve.chosen` of a message.

    Returns:
        About how many bounds within the cells fail, and the words of the groups on slots of the message.
    """
    slots, attribute_of = long_at(segment, Part.SIEVE_SLOTS), long_at(search, Search.ATTRIBUTE_OF)
    cuts, cells = long_at(segment, Part.SIEVE_CUTS), long_at(segment, Part.SIEVE_CELLS)
    chosen, groups = long_at(segment, Part.SIEVE_CHOSEN), long_at(segment, Part.SIEVE_GROUPS)
    bounds, words = 0, 0
    for own in range(long_at(segment, Part.SIEVE_COUNT)):
        attribute, cell, first = long_at(attribute_of, int_at(slots, own)), cells, own * (cells - 1)
        if attribute != 0:
            cell = reached(cuts, first, first + cells - 1, long_at(attribute, KEY), 0) - first
            for side in (_LOWER, _UPPER):
                bounds += _begin(segment, own, side, cell + 1) - _begin(segment, own, side, cell)
            row = own * _GROUP + _WORD
            words += long_at(groups, row + _GROUP) - long_at(groups, row)
        put_long(chosen, own * _CHOSEN + _CELL, cell)
        row = (own * (cells + 1) + cell) * long_at(segment, Part.SIEVE_WORDS)
        put_long(chosen, own * _CHOSEN + _ROW, long_at(segment, Part.SIEVE_POSSIBLE) + 8 * row)
    return bounds >> 1, words


@callee
def _begin(segment: Address, own: I64, side: I64, cell: I64) -> I64:
    """Returns the first of the lower or the upper bounds of a slot in a cell, or behind the last cell."""
    row = (2 * own + side) * (long_at(segment, Part.SIEVE_CELLS) + 1)
    return long_at(long_at(segment, Part.SIEVE_BEGINS), row + cell)


@callee
def _gather(segment: Address, group: I64) -> I64:
    """Writes the addresses of the chosen bitmaps of a group's slots to `Sieve.rows`; returns their number."""
    groups, members = long_at(segment, Part.SIEVE_GROUPS), long_at(segment, Part.SIEVE_MEMBERS)
    chosen, rows = long_at(segment, Part.SIEVE_CHOSEN), long_at(segment, Part.SIEVE_ROWS)
    first, end = long_at(groups, group * _GROUP + _MEMBER), long_at(groups, (group + 1) * _GROUP + _MEMBER)
    for at in range(first, end):
        put_long(rows, at - first, long_at(chosen, int_at(members, at) * _CHOSEN + _ROW))
    return end - first


@callee
def _clear(search: Address, segment: Address) -> Flag:
    """Clears the bits of the filters of which a bound within a cell fails; True: too many steps."""
    slots, attribute_of = long_at(segment, Part.SIEVE_SLOTS), long_at(search, Search.ATTRIBUTE_OF)
    bounds, chosen = long_at(segment, Part.SIEVE_BOUNDS), long_at(segment, Part.SIEVE_CHOSEN)
    for own in range(long_at(segment, Part.SIEVE_COUNT)):
        cell = long_at(chosen, own * _CHOSEN + _CELL)
        if cell == long_at(segment, Part.SIEVE_CELLS):
            continue
        key = long_at(long_at(attribute_of, int_at(slots, own)), KEY)
        low_end, high = _begin(segment, own, _LOWER, cell + 1), _begin(segment, own, _UPPER, cell)
        low = reached(bounds, _begin(segment, own, _LOWER, cell), low_end, key, 0)
        high_end = high
        # No bound is below the lowest key.
        if key > LOWEST:
            high_end = reached(bounds, high, _begin(segment, own, _UPPER, cell + 1), key - 1, 0)
        if spend(search, (low_end - low + high_end - high) >> _BOUNDS):
            return True
        _clear_range(segment, low, low_end)
        _clear_range(segment, high, high_end)
    return False


@callee
def _clear_range(segment: Address, begin: I64, end: I64) -> None:
    filters, left = long_at(segment, Part.SIEVE_FILTERS), long_at(segment, Part.SIEVE_LEFT)
    for at in range(begin, end):
        number = int_at(filters, at)
        put_long(left, number >> 6, long_at(left, number >> 6) & ~(np.int64(1) << (number & 63)))


@callee
def _take(search: Address, segment: Address, begin: I64) -> Flag:
    """Adds the interfaces of the filters in `Sieve.left`, from a word on."""
    open_, interface = long_at(search, Search.OPEN), long_at(segment, Part.INTERFACE)
    groups, chosen = long_at(segment, Part.SIEVE_GROUPS), long_at(segment, Part.SIEVE_CHOSEN)
    left, absent = long_at(segment, Part.SIEVE_LEFT), long_at(segment, Part.SIEVE_CELLS)
    found, number = long_at(search, Search.FOUND), long_at(search, Search.NUMBER)
    # Read once: a dense answer takes its time in the loop below.
    turn = byte_at(open_, 0)
    for group in range(long_at(segment, Part.SIEVE_COUNT)):
        row = group * _GROUP
        first, end = long_at(groups, row + _WORD), long_at(groups, row + _GROUP + _WORD)
        if long_at(chosen, group * _CHOSEN + _CELL) == absent:
            continue
        if spend(search, (end - first) >> _BOUNDS):
            break
        posting = long_at(segment, Part.SIEVE_START) + long_at(groups, row + _POSTING) - 64 * first
        for word in range(max(first, begin), end):
            bits = long_at(left, word)
            while bits != 0:
                which = int_at(interface, posting + 64 * word + lowest_bit(bits))
                if byte_at(open_, which) < turn:
                    put_byte(open_, which, turn)
                    put_int(found, number, which)
                    number += 1
                bits &= bits - 1
    put_long(search, Search.NUMBER, number)
    return number >= long_at(search, Search.LIMIT) or long_at(search, Search.STEPS) < 0
