"""Segments: an immutable index over filters, except that filters can be removed from it.

Source: access predicates (Fabret et al., "Filtering algorithms and implementation for very fast
publish/subscribe systems", SIGMOD 2001). A filter has one posting, which is filed under one of its
constraints, called its access: the one that messages are least likely to satisfy. Only if a message satisfies
the access are the other constraints verified, from consecutive records. A sieve has the filters of wide
intervals alone (docs/explanation/engine.md).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from router.matching.compiled import (
    ACCESSES,
    BLOCK,
    GROUP_END,
    GROUP_KEY,
    GROUP_OTHERS,
    GROUP_UNITS,
    GROUP_WIDTH,
    HIGHEST,
    LISTS,
    LOWEST,
    NAME_HASH,
    SEED_AT,
    SLOT_EQUAL,
    SLOT_LENGTHS,
    SLOT_LISTS,
    SLOT_NAME,
    SLOT_NAME_LENGTH,
    SLOT_TYPE,
    SLOT_WIDTH,
    STRING,
    Access,
    Part,
    Test,
    callee,
    kernel,
    mixed,
)
from router.matching.compiled.normal import NormalTable
from router.matching.compiled.sieve import SIEVE_PARTS, SLOTS, sieve_of
from router.native import I64, Address, Array, Real, Tuple, address_of

_RANGE, _DIFFERS, _IS_STRING, _SAME = int(Test.RANGE), int(Test.DIFFERS), int(Test.IS_STRING), int(Test.EQUAL)
_UNEQUAL, _STARTS, _HOLDS = int(Test.UNEQUAL), int(Test.PREFIX), int(Test.SUBSTRING)
_BELOW, _TEST_AT_MOST = int(Test.BELOW), int(Test.AT_MOST)
_PRESENT, _FROM, _UP_TO, _BETWEEN = (int(Access[n]) for n in ("PRESENT", "FROM", "UP_TO", "BETWEEN"))
_EQUAL, _PREFIX, _SUBSTRING = int(Access.EQUAL), int(Access.PREFIX), int(Access.SUBSTRING)
_SIEVED, _ALWAYS, _NEVER = int(Access.SIEVED), int(Access.ALWAYS), int(Access.NEVER)
#: From an access to that of a unit.
_TO_UNIT = _PRESENT
_Ints = npt.NDArray[np.int32]
_Longs = npt.NDArray[np.int64]


class Segment:
    """An index over a normal table.

    Attributes:
        parts: int64 [Part.SIZE], the row that compiled code reads; the segment owns the arrays to which it
            refers.
        slots, groups: their number.
        order: int32 [F], the number in the table of the filter of each posting.
    """

    def __init__(self, table: NormalTable) -> None:
        slots = len(table.slot_name)
        access, chosen, key = _choose_accesses(
            table.start, table.satisfiable, table.test, table.a, table.b, table.strings.start, slots, SEED_AT
        )
        sieved = np.flatnonzero(access == slots * ACCESSES + _SIEVED)
        key[1, sieved] = _turns(table.interface[sieved])
        self.order: _Ints = np.lexsort((key[1], key[0], access)).astype(np.int32)
        access, key = access[self.order], key[:, self.order]
        self.interface, self.needs, self.record_start, self.test, self.a, self.b, lower, upper = _file(
            self.order, chosen, access, table.interface, table.start, table.test, table.a, table.b
        )
        self.names, self.strings = table.names, table.strings
        self.slot_name, self.slot_type = table.slot_name, table.slot_type
        rows = self._slot_rows(access)
        groups, values, lengths, first_bytes = self._groups(access, key, rows)
        self.slots, self.groups = len(rows), len(groups)
        hashes = self._hashes(groups, values)
        patterns = hashes[1][groups[:, GROUP_KEY] % ACCESSES != _EQUAL]
        bloom, block = _bloom(patterns), _highest(upper)
        parts = np.zeros(Part.SIZE, np.int64)
        self._arrays: dict[Part, npt.NDArray[np.generic]] = {
            Part.SLOT_ROWS: rows,
            Part.NAMES: self.names.text,
            Part.STRING_START: self.strings.start,
            Part.STRING_POLYNOMIAL: self.strings.polynomial,
            Part.TEXT: self.strings.text,
            Part.GROUP_ROWS: groups,
            Part.GROUP_VALUE: values,
            Part.BLOOM: bloom,
            Part.FIRST_BYTES: first_bytes,
            Part.LENGTHS: lengths,
            Part.INTERFACE: self.interface,
            Part.NEEDS: self.needs,
            Part.RECORD_START: self.record_start,
            Part.LOWER: lower,
            Part.UPPER: upper,
            Part.BLOCK_UPPER: block,
            Part.BLOCKS_UPPER: _highest(block),
            Part.RECORD_TEST: self.test,
            Part.RECORD_A: self.a,
            Part.RECORD_B: self.b,
        }
        tables = (
            (Part.SLOT_TABLE, Part.SLOT_HASH, Part.SLOT_BITS),
            (Part.GROUP_TABLE, Part.GROUP_HASH, Part.GROUP_BITS),
        )
        for (items, held, exponent), own in zip(tables, hashes, strict=True):
            parts[exponent] = max(3, (2 * len(own) - 1).bit_length())
            self._arrays[items], self._arrays[held] = _hash_table(own, int(parts[exponent]))
        ends = np.searchsorted(access, slots * ACCESSES + np.array([_SIEVED, _ALWAYS, _NEVER]))
        parts[Part.SIEVE_START], parts[Part.ALWAYS_START], parts[Part.ALWAYS_END] = ends
        if ends[0] < ends[1]:
            starts = self.record_start[ends[0] : ends[1] + 1]
            sieve = sieve_of(key[0, ends[0] : ends[1]], starts, self.test, self.a, self.b)
            self._arrays |= zip(SIEVE_PARTS, sieve, strict=True)
            count, rows, words = sieve.possible.shape
            parts[Part.SIEVE_COUNT : Part.SIZE] = count, rows - 1, words
        for part, array in self._arrays.items():
            parts[part] = address_of(array)
        parts[Part.BLOOM_WORDS] = len(bloom)
        self.parts = parts

    @property
    def nbytes(self) -> int:
        """The memory of the arrays, in bytes."""
        return sum(array.nbytes for array in self._arrays.values()) + self.order.nbytes

    def _slot_rows(self, access: _Longs) -> _Ints:
        slots = len(self.slot_name)
        rows = np.zeros((slots, SLOT_WIDTH), np.int32)
        firsts = np.arange(slots, dtype=np.int64)[:, None] * ACCESSES + np.arange(LISTS + 1)
        rows[:, SLOT_LISTS : SLOT_LISTS + LISTS + 1] = np.searchsorted(access, firsts)
        rows[:, SLOT_TYPE] = self.slot_type
        starts = self.names.start[self.slot_name]
        rows[:, SLOT_NAME] = starts
        rows[:, SLOT_NAME_LENGTH] = self.names.start[self.slot_name + 1] - starts
        return rows

    def _hashes(self, groups: _Ints, values: _Longs) -> tuple[_Longs, _Longs]:
        """Returns the hashes of slots and groups."""
        names, strings = self.names, self.strings
        slots = _hashes(
            names.polynomial[self.slot_name],
            np.diff(names.start).astype(np.int64)[self.slot_name],
            NAME_HASH - self.slot_type.astype(np.int64),
            SEED_AT,
        )
        kinds = groups[:, GROUP_KEY].astype(np.int64)
        textual = self.slot_type[kinds // ACCESSES] == STRING
        hashed, sizes = values.copy(), np.zeros(len(values), np.int64)
        hashed[textual] = strings.polynomial[values[textual]]
        sizes[textual] = np.diff(strings.start)[values[textual]]
        return slots, _hashes(hashed, sizes, kinds, SEED_AT)

    def _groups(self, access: _Longs, key: _Longs, rows: _Ints) -> tuple[_Ints, _Longs, _Ints, _Longs]:
        """Returns rows and values of the groups, the lengths of patterns, the first bytes of substrings."""
        kind = access % ACCESSES
        grouped = (kind >= _EQUAL) & (kind <= _SUBSTRING)
        change = np.ones(len(access), np.bool_)
        change[1:] = (access[1:] != access[:-1]) | (key[0, 1:] != key[0, :-1])
        first = np.flatnonzero(change & grouped)
        ends = np.flatnonzero(np.append(change, True))
        groups = np.empty((len(first), GROUP_WIDTH), np.int32)
        groups[:, GROUP_KEY] = access[first]
        groups[:, GROUP_UNITS] = first
        groups[:, GROUP_END] = ends[np.searchsorted(ends, first, side="right")]
        units = np.concatenate([[0], np.cumsum(key[1] == 0)])
        groups[:, GROUP_OTHERS] = first + units[groups[:, GROUP_END]] - units[first]
        values = key[0, first]
        slot, kind = access[first] // ACCESSES, kind[first]
        rows[slot[kind == _EQUAL], SLOT_EQUAL] = 1
        patterns = kind >= _PREFIX
        text = values[patterns]
        lengths = self.strings.start[text + 1] - self.strings.start[text]
        # Each distinct length of each access of each slot, in this order.
        coded = np.unique(access[first][patterns] << 20 | lengths)
        bounds = np.arange(len(rows), dtype=np.int64)[:, None] * ACCESSES + np.arange(_PREFIX, _SUBSTRING + 2)
        rows[:, SLOT_LENGTHS : SLOT_LENGTHS + 4] = np.searchsorted(coded, bounds << 20)
        first_bytes = np.zeros((len(rows), 4), np.int64)
        holds = kind == _SUBSTRING
        letters = self.strings.text[self.strings.start[values[holds]]].astype(np.int64)
        np.bitwise_or.at(first_bytes, (slot[holds], letters >> 6), np.int64(1) << (letters & 63))
        return groups, values, (coded & 0xFFFFF).astype(np.int32), first_bytes


def _turns(interfaces: _Ints) -> _Longs:
    """Returns how many filters of its interface precede each filter: a search sees all interfaces soon."""
    order = np.argsort(interfaces, kind="stable")
    places = np.arange(len(order))
    first = np.diff(interfaces[order], prepend=-1) != 0
    turns = np.empty(len(order), np.int64)
    turns[order] = places - np.maximum.accumulate(np.where(first, places, 0))
    return turns


def _highest(values: _Longs) -> _Longs:
    """Returns the highest value of each block of values."""
    return np.maximum.reduceat(values, np.arange(0, len(values), BLOCK)) if len(values) else values


def _bloom(hashes: _Longs) -> _Longs:
    """Returns a Bloom filter with one bit for each pattern, of 16 to 32 bits a pattern."""
    words = 1
    while words * 64 < 16 * len(hashes):
        words *= 2
    bits = hashes >> 24 & (words * 64 - 1)
    bloom = np.zeros(words, np.int64)
    np.bitwise_or.at(bloom, bits >> 6, np.int64(1) << (bits & 63))
    return bloom


# The cost model of accesses. Nothing is known about future messages, so the filters of the table stand for
# them: an attribute that many filters constrain is assumed to be in many messages, and a value that many
# filters ask for to be a frequent one. The constants are estimates that need to be right only in order.

#: Share of values that satisfy one bound, and a lower and an upper bound.
_ONE_BOUND, _TWO_BOUNDS = 0.4, 0.1
#: A prefix or suffix of n characters is in 0.25 ** n of the strings (a skewed alphabet), n at most 8; a
#: substring can be at any of about six places.
_PER_CHARACTER, _LONGEST_COUNTED, _PLACES = 0.25, 8, 6
#: The share of strings that a substring is in, at most.
_SUBSTRING_MOST = 0.9
#: Added to the number of equalities of a slot: among few, a value is not known to be rare.
_EQUALITIES_PRIOR = 30.0
#: A filter of intervals is sieved if its access is expected in this share of the messages or more; a segment
#: of fewer filters has no sieve.
_SIEVED_SHARE, _SIEVED_LEAST = 0.004, 256


@callee
def _likelihood(test: I64, low: I64, high: I64) -> Real:
    """Estimates the share of the values of an attribute that pass a test that is no equality.

    Args:
        high: the length, if the test is a pattern.
    """
    if test == _RANGE:
        if low == LOWEST or high == HIGHEST:
            return 1.0 if low == LOWEST and high == HIGHEST else _ONE_BOUND
        return _TWO_BOUNDS
    if test in (_DIFFERS, _IS_STRING, _UNEQUAL):
        return 1.0
    if _STARTS <= test <= _HOLDS:
        rarity = _PER_CHARACTER ** min(high, _LONGEST_COUNTED)
        return min(_SUBSTRING_MOST, _PLACES * rarity) if test == _HOLDS else rarity
    return _ONE_BOUND


@callee
def _place(table: Array, keys: Array, slot: I64, value: I64, seed: Address) -> I64:
    """Returns the index, in an open-addressing table of counts, of a value of a slot."""
    mask = len(table) - 1
    at = mixed(value, 0, slot, seed) & mask
    while table[at] != 0 and (keys[at, 0] != slot or keys[at, 1] != value):
        at = (at + 1) & mask
    return at


@kernel
def _choose_accesses(
    starts: Array,
    satisfiable: Array,
    tests: Array,
    lows: Array,
    highs: Array,
    string_start: Array,
    slots: I64,
    seed: Address,
) -> Tuple:
    """Chooses the access of each filter: the constraint that fewest messages are expected to satisfy.

    The expected number is (constraints of all filters on the attribute) * `_likelihood`.

    Returns:
        For each filter: its access of a slot, the index of the record that is its access (-1: none), and two
        sort keys of its posting, the value and 0 for a unit.
    """
    filters = len(starts) - 1
    slot_of, tests = tests // ACCESSES, tests % ACCESSES
    equal = (tests == _SAME) | ((tests == _RANGE) & (lows == highs))
    in_slot = np.bincount(slot_of, minlength=slots)
    equal_in_slot = np.bincount(slot_of[equal], minlength=slots)
    equalities, size = np.flatnonzero(equal), 8
    while size < 2 * len(equalities):
        size *= 2
    counts, keys = np.zeros(size, np.int64), np.empty((size, 2), np.int64)
    for record in equalities:
        place = _place(counts, keys, slot_of[record], highs[record], seed)
        keys[place, 0], keys[place, 1] = slot_of[record], highs[record]
        counts[place] += 1
    accesses, chosen, key = (
        np.empty(filters, np.int64),
        np.empty(filters, np.int64),
        np.zeros((2, filters), np.int64),
    )
    # A filter's access is its least likely constraint: its other slots pass the same threshold.
    sieving = filters >= _SIEVED_LEAST and (in_slot >= _SIEVED_SHARE * filters).sum() <= SLOTS
    for number in range(filters):
        best, rarest, wide = -1, 1e300, sieving
        for at in range(starts[number], starts[number + 1]):
            test, slot, high = tests[at], slot_of[at], highs[at]
            if equal[at]:
                same = counts[_place(counts, keys, slot, high, seed)]
                likelihood = in_slot[slot] * same / (equal_in_slot[slot] + _EQUALITIES_PRIOR)
            else:
                if _STARTS <= test <= _HOLDS:
                    high = np.int64(string_start[high + 1] - string_start[high])
                likelihood = in_slot[slot] * _likelihood(test, lows[at], high)
            wide &= test == _RANGE
            if likelihood < rarest:
                best, rarest = at, likelihood
        chosen[number] = best
        if best < 0:
            accesses[number] = slots * ACCESSES + (_ALWAYS if satisfiable[number] else _NEVER)
            continue
        if wide and lows[best] < highs[best] and rarest >= _SIEVED_SHARE * filters:
            accesses[number], key[0, number] = slots * ACCESSES + _SIEVED, slot_of[best]
            continue
        test, low, high = tests[best], lows[best], highs[best]
        exact = True
        if test == _RANGE:
            if low == high:
                access, value = _EQUAL, low
            elif low == LOWEST:
                access, value = (_PRESENT, 0) if high == HIGHEST else (_UP_TO, ~high)
            else:
                access, value = (_FROM if high == HIGHEST else _BETWEEN), low
        elif test == _SAME:
            access, value = _EQUAL, high
        elif _STARTS <= test <= _HOLDS:
            access, value = _PREFIX + test - _STARTS, high
        elif test == _IS_STRING:
            access, value = _PRESENT, 0
        elif test in (_DIFFERS, _UNEQUAL):
            access, value, exact = _PRESENT, 0, False
        else:
            # A key has the first bytes only: a string with the key of the bound must be verified.
            exact = False
            below = test in (_BELOW, _TEST_AT_MOST)
            access, value = (_UP_TO, ~low) if below else (_FROM, low)
        unit = exact and starts[number + 1] - starts[number] == 1
        if unit and access < _EQUAL:
            access -= _TO_UNIT
        accesses[number] = slot_of[best] * ACCESSES + access
        key[0, number], key[1, number] = value, 0 if unit else 1
    return accesses, chosen, key


@kernel
def _file(
    order: Array,
    chosen: Array,
    accesses: Array,
    interfaces: Array,
    starts: Array,
    tests: Array,
    lows: Array,
    highs: Array,
) -> Tuple:
    """Lays out postings and records in order; the record that is a filter's access becomes its first."""
    filters, records = len(order), len(tests)
    interface, needs = np.empty(filters, np.int32), np.zeros(filters, np.int64)
    lower, upper = np.zeros(filters, np.int64), np.full(filters, LOWEST, np.int64)
    start = np.empty(filters + 1, np.int32)
    test, a, b = np.empty(records, np.int32), np.empty(records, np.int64), np.empty(records, np.int64)
    used = 0
    for position in range(filters):
        number = order[position]
        interface[position], start[position] = interfaces[number], used
        access, first = accesses[position] % ACCESSES, chosen[number]
        for at in range(starts[number], starts[number + 1]):
            to = used + at - starts[number]
            # The access and the first record change places.
            source = first if at == starts[number] else (starts[number] if at == first else at)
            test[to], a[to], b[to] = tests[source], lows[source], highs[source]
            needs[position] |= np.int64(1) << (tests[source] // ACCESSES & 63)
        alone = starts[number + 1] - starts[number] == 1
        if access < _PRESENT or access == _ALWAYS or (alone and _EQUAL <= access <= _SUBSTRING):
            needs[position] = 0
        if access < _EQUAL and access % _TO_UNIT != 0:
            # The bound of a string has one key, in a.
            text = tests[first] % ACCESSES != _RANGE
            lower[position] = lows[first]
            upper[position] = lows[first] if text else highs[first]
        used += starts[number + 1] - starts[number]
    start[filters] = used
    return interface, needs, start, test, a, b, lower, upper


@kernel
def _hashes(values: _Longs, lengths: _Longs, kinds: _Longs, seed: Address) -> _Longs:
    hashes = np.empty(len(values), np.int64)
    for number in range(len(hashes)):
        hashes[number] = mixed(values[number], lengths[number], kinds[number], seed)
    return hashes


@kernel
def _hash_table(hashes: _Longs, bits: int) -> Tuple:
    """Makes an open-addressing table: the number of the item in each place (-1: none), and its hash."""
    items, held = np.full(1 << bits, -1, np.int32), np.zeros(1 << bits, np.int64)
    mask = (1 << bits) - 1
    for item in range(len(hashes)):
        at = hashes[item] & mask
        while items[at] >= 0:
            at = (at + 1) & mask
        items[at], held[at] = item, hashes[item]
    return items, held
