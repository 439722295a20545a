"""The sieve of a segment: bitmaps that decide wide filters of intervals without reading their records.

The filters of a sieve have intervals alone, each on a slot that many filters constrain; one by one, too many
would be verified. The keys of each slot are cut into cells at bounds of the filters. Each cell, and the
absence of the slot, has a bit for each filter: whether a key there can be within the filter's interval. The
filters whose access is on one slot are a group. A search is an `and` of bitmaps, one for each slot of a
group, over the groups on slots that the message has. If few bits are left, their filters are verified;
otherwise the filters that fail are cleared: their bounds are next to the key, within its cell, in the sorted
bounds of the slot.

Sources: the bitmap indices of O'Neil and Quass ("Improved query performance with variant indexes", SIGMOD
1997), and REIN, which marks the filters that fail (Qian et al., INFOCOM 2014).
"""

from __future__ import annotations

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
    byte_at,
    int_at,
    long_at,
    lowest_bit,
    ones,
    put_byte,
    put_int,
    put_long,
)

_Ints = npt.NDArray[np.int32]
_Longs = npt.NDArray[np.int64]
#: Fewest and most cells of a slot, and bits of a filter in all bitmaps: beyond them, a slot has fewer cells.
_FEWEST, _CELLS, _BITS = 3, 32, 1024
#: Where compiled code finds the arrays of a `Sieve`.
SIEVE_PARTS = [Part(part) for part in range(Part.SIEVE_SLOTS, Part.SIEVE_COUNT)]
#: Bounds that are cleared in the time of a verification.
_CLEARED = 32
#: Words of bitmaps, and cleared bounds, of a step of a search: exponents of 2.
_WORDS, _BOUNDS = 4, 3
#: Columns of `Sieve.groups`: the first posting, word and slot of a group.
_POSTING, _WORD, _MEMBER, _GROUP = range(4)
#: Columns of `Sieve.chosen`: the cell of a slot; the first word of its bitmap; the lower and the upper bounds
#: within the cell that fail.
_CELL, _ROW, _LOW_AT, _LOW_END, _HIGH_AT, _HIGH_END, _CHOSEN = range(7)


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
    places, cells = index[slot], max(_FEWEST, min(_CELLS, _BITS // len(slots) - 1))
    # Groups.
    groups = np.zeros((len(slots) + 1, _GROUP), np.int64)
    groups[:, _POSTING] = np.append(np.searchsorted(accesses, slots), len(accesses))
    sizes = np.diff(groups[:, _POSTING])
    groups[1:, _WORD] = np.cumsum((sizes + 63) >> 6)
    number = np.arange(len(accesses)) + np.repeat(64 * groups[:-1, _WORD] - groups[:-1, _POSTING], sizes)
    filters = np.repeat(number.astype(np.int32), np.diff(starts))
    used = np.zeros((len(slots), len(slots)), np.bool_)
    used[np.repeat(index[accesses], np.diff(starts)), places] = True
    groups[1:, _MEMBER] = np.cumsum(used.sum(axis=1))
    # Cells and bounds.
    cuts = np.empty((len(slots), cells - 1), np.int64)
    begins = np.empty((len(slots), 2, cells + 1), np.int64)
    bounds, of_bounds, end = list[_Longs](), list[_Ints](), 0
    by_slot = np.split(np.argsort(places, kind="stable"), np.cumsum(counts[slots])[:-1])
    for number_, here in enumerate(by_slot):
        orders = [here[np.argsort(values[here])] for values in (lows, highs)]
        low, high = lows[orders[0]], highs[orders[1]]
        cuts[number_] = _cuts(np.concatenate([low[low != LOWEST], high[high != HIGHEST] + 1]), cells)
        for side, values in enumerate((low, high)):
            begins[number_, side] = end + np.searchsorted(values, [LOWEST, *cuts[number_], HIGHEST])
            end += len(values)
            begins[number_, side, -1] = end
        bounds += [low, high]
        of_bounds += [filters[order] for order in orders]
    # Bitmaps. No filter has the bits behind the last one of a group.
    possible = np.full((len(slots), cells + 1, groups[-1, _WORD]), -1, np.int64)
    for group in np.flatnonzero(sizes % 64):
        possible[group, :, groups[group + 1, _WORD] - 1] = (1 << int(sizes[group] % 64)) - 1
    _fill(filters, places, lows, highs, cuts, possible)
    return Sieve(
        slots,
        cuts,
        possible,
        np.concatenate(bounds),
        np.concatenate(of_bounds),
        begins,
        groups,
        np.nonzero(used)[1].astype(np.int32),
        np.empty((len(slots), _CHOSEN), np.int64),
        np.empty(len(slots), np.int64),
        np.empty(groups[-1, _WORD], np.int64),
    )


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
    """Matches the postings of the sieve; returns True as the functions on postings do."""
    failing = _choose(search, segment)
    found = _intersect(search, segment)
    clear = found * _CLEARED > failing
    if clear:
        _clear(segment)
        spend(search, failing >> _BOUNDS)
    groups, chosen = long_at(segment, Part.SIEVE_GROUPS), long_at(segment, Part.SIEVE_CHOSEN)
    left, absent = long_at(segment, Part.SIEVE_LEFT), long_at(segment, Part.SIEVE_CELLS)
    for group in range(long_at(segment, Part.SIEVE_COUNT)):
        row = group * _GROUP
        posting = long_at(segment, Part.SIEVE_START) + long_at(groups, row + _POSTING)
        first, end = long_at(groups, row + _WORD), long_at(groups, row + _GROUP + _WORD)
        if long_at(chosen, group * _CHOSEN + _CELL) < absent and (
            _take_bits(search, segment, posting, left + 8 * first, end - first)
            if clear
            else _verify_bits(search, segment, posting, left + 8 * first, end - first)
        ):
            return True
    return long_at(search, Search.STEPS) < 0


@callee
def _choose(search: Address, segment: Address) -> I64:
    """Writes `Sieve.chosen` of a message; returns the number of bounds in it that fail."""
    slots, attribute_of = long_at(segment, Part.SIEVE_SLOTS), long_at(search, Search.ATTRIBUTE_OF)
    cuts, rows = long_at(segment, Part.SIEVE_CUTS), long_at(segment, Part.SIEVE_CELLS) + 1
    bounds, begins = long_at(segment, Part.SIEVE_BOUNDS), long_at(segment, Part.SIEVE_BEGINS)
    chosen, failing = long_at(segment, Part.SIEVE_CHOSEN), 0
    for own in range(long_at(segment, Part.SIEVE_COUNT)):
        attribute, cell = long_at(attribute_of, int_at(slots, own)), rows - 1
        low = low_end = high = high_end = np.int64(0)
        if attribute != 0:
            key, first = long_at(attribute, KEY), own * (rows - 2)
            cell = reached(cuts, first, first + rows - 2, key, 0) - first
            lower = 2 * own * rows + cell
            upper = lower + rows
            low_end, high = long_at(begins, lower + 1), long_at(begins, upper)
            low = reached(bounds, long_at(begins, lower), low_end, key, 0)
            # The upper bounds below the key; none is below the lowest one.
            high_end = reached(bounds, high, long_at(begins, upper + 1), key - 1, 0) if key > LOWEST else high
            failing += low_end - low + high_end - high
        row = own * _CHOSEN
        put_long(chosen, row + _CELL, cell)
        put_long(chosen, row + _ROW, (own * rows + cell) * long_at(segment, Part.SIEVE_WORDS))
        put_long(chosen, row + _LOW_AT, low)
        put_long(chosen, row + _LOW_END, low_end)
        put_long(chosen, row + _HIGH_AT, high)
        put_long(chosen, row + _HIGH_END, high_end)
    return failing


@callee
def _intersect(search: Address, segment: Address) -> I64:
    """Writes the filters that are possible to `Sieve.left`; returns their number."""
    possible, chosen = long_at(segment, Part.SIEVE_POSSIBLE), long_at(segment, Part.SIEVE_CHOSEN)
    groups, members = long_at(segment, Part.SIEVE_GROUPS), long_at(segment, Part.SIEVE_MEMBERS)
    left, rows = long_at(segment, Part.SIEVE_LEFT), long_at(segment, Part.SIEVE_ROWS)
    absent, found = long_at(segment, Part.SIEVE_CELLS), 0
    for group in range(long_at(segment, Part.SIEVE_COUNT)):
        if long_at(chosen, group * _CHOSEN + _CELL) == absent:
            continue
        row = group * _GROUP
        first, count = long_at(groups, row + _MEMBER), 0
        for at in range(first, long_at(groups, row + _GROUP + _MEMBER)):
            own = int_at(members, at) * _CHOSEN
            put_long(rows, count, possible + 8 * long_at(chosen, own + _ROW))
            count += 1
        word, end = long_at(groups, row + _WORD), long_at(groups, row + _GROUP + _WORD)
        spend(search, (end - word) * count >> _WORDS)
        while word < end:
            bits, at = np.int64(-1), 0
            while bits != 0 and at < count:
                bits &= long_at(long_at(rows, at), word)
                at += 1
            put_long(left, word, bits)
            found += ones(bits)
            word += 1
    return found


@callee
def _clear(segment: Address) -> None:
    """Clears the bits of the filters of which a bound fails."""
    filters, chosen = long_at(segment, Part.SIEVE_FILTERS), long_at(segment, Part.SIEVE_CHOSEN)
    left = long_at(segment, Part.SIEVE_LEFT)
    for own in range(long_at(segment, Part.SIEVE_COUNT)):
        for begin in (_LOW_AT, _HIGH_AT):
            row = own * _CHOSEN + begin
            for at in range(long_at(chosen, row), long_at(chosen, row + 1)):
                number = int_at(filters, at)
                put_long(left, number >> 6, long_at(left, number >> 6) & ~(np.int64(1) << (number & 63)))


@callee
def _verify_bits(search: Address, segment: Address, posting: I64, left: Address, words: I64) -> Flag:
    """Verifies the postings posting + i of the bits i."""
    for word in range(words):
        bits = long_at(left, word)
        while bits != 0:
            at = posting + 64 * word + lowest_bit(bits)
            if verify(search, segment, at, at + 1, 0):
                return True
            bits &= bits - 1
    return False


@callee
def _take_bits(search: Address, segment: Address, posting: I64, left: Address, words: I64) -> Flag:
    """Adds the interfaces of the postings posting + i of the bits i."""
    open_, interface, found = (
        long_at(search, Search.OPEN),
        long_at(segment, Part.INTERFACE),
        long_at(search, Search.FOUND),
    )
    number = long_at(search, Search.NUMBER)
    for word in range(words):
        bits = long_at(left, word)
        while bits != 0:
            which = int_at(interface, posting + 64 * word + lowest_bit(bits))
            if byte_at(open_, which):
                put_byte(open_, which, 0)
                put_int(found, number, which)
                number += 1
            bits &= bits - 1
    put_long(search, Search.NUMBER, number)
    return number >= long_at(search, Search.LIMIT)
