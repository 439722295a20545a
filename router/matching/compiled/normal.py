"""Normal tables: filters whose constraints have become tests of int64 keys.

Each distinct string is stored once, constraints on one numeric attribute become one interval, and operators
that matching need not distinguish become one test (`Test`). Segments are built from normal tables and
merged as normal tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from router.matching.columns import ConstraintColumns
from router.matching.compiled import (
    ACCESSES,
    BOOLEAN,
    DOUBLE,
    HIGHEST,
    LOWEST,
    SEED_AT,
    STRING,
    Test,
    base_of,
    callee,
    extended,
    kernel,
)
from router.native import I64, Address, Array, Tuple, address_of, byte_at
from router.predicates import Operator

_EQ, _NE, _LT, _GT, _LE, _GE = (int(o) for o in list(Operator)[:6])
_PREFIX, _ANY = int(Operator.PREFIX), int(Operator.ANY)
_RANGE, _DIFFERS, _IS_STRING = int(Test.RANGE), int(Test.DIFFERS), int(Test.IS_STRING)
#: Operator of a constraint on a string, from 1 -> its test.
_STRING_TESTS = np.array(
    [
        *(0, Test.EQUAL, Test.UNEQUAL, Test.BELOW, Test.ABOVE, Test.AT_MOST, Test.AT_LEAST),
        *(Test.PREFIX, Test.SUFFIX, Test.SUBSTRING, Test.IS_STRING),
    ],
    np.int64,
)
_BYTE, _SIGN = np.uint64(8), np.uint64(1 << 63)
_Ints = npt.NDArray[np.int32]
#: A test is combined with an equal one among this many preceding tests of the filter.
_LOOK_BACK = 8


@dataclass(frozen=True, slots=True)
class Texts:
    """Consecutive byte strings: number i is text[start[i]:start[i + 1]].

    Attributes:
        polynomial: int64, the polynomial of each (`hashing`). It is computed once: two megabytes take 8 ms.
    """

    start: npt.NDArray[np.int32]
    text: npt.NDArray[np.uint8]
    polynomial: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, number: int) -> bytes:
        return self.text[self.start[number] : self.start[number + 1]].tobytes()


def texts_of(strings: list[bytes]) -> Texts:
    """Returns byte strings as `Texts`.

    Raises:
        ValueError: the strings have 2 GiB or more in all.
    """
    start = np.zeros(len(strings) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, strings), np.int64, len(strings)), out=start[1:])
    if start[-1] >= 2**31:
        raise ValueError(f"strings of {start[-1]} bytes in one table; at most {2**31 - 1}")
    text = np.frombuffer(b"".join(strings), np.uint8)
    return Texts(start.astype(np.int32), text, _polynomials(start, text, SEED_AT))


@kernel
def _polynomials(
    start: npt.NDArray[np.int64], text: npt.NDArray[np.uint8], seed: Address
) -> npt.NDArray[np.int64]:
    polynomials = np.empty(len(start) - 1, np.int64)
    base = base_of(seed)
    for number in range(len(polynomials)):
        value = np.int64(0)
        for position in range(start[number], start[number + 1]):
            value = extended(value, np.int64(text[position]), base)
        polynomials[number] = value
    return polynomials


@dataclass(frozen=True, slots=True)
class NormalTable:
    """F filters with R records in all.

    Attributes:
        interface: int32 [F], dense number of the interface of each filter.
        start: int64 [F + 1], filter f has the records start[f] to start[f + 1] - 1.
        satisfiable: bool [F], False for filters that no message matches; they have no records.
        test: int32 [R], slot * ACCESSES + `Test`.
        a, b: int64 [R], see `Test`.
        slot_name, slot_type: int32 [S], of each slot: index into `names`, and `router.predicates.Type`.
        names, strings: without duplicates.
    """

    interface: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]
    satisfiable: npt.NDArray[np.bool_]
    test: npt.NDArray[np.int32]
    a: npt.NDArray[np.int64]
    b: npt.NDArray[np.int64]
    slot_name: npt.NDArray[np.int32]
    slot_type: npt.NDArray[np.int32]
    names: Texts
    strings: Texts


def normal_table(columns: ConstraintColumns, interface: npt.NDArray[np.int32]) -> NormalTable:
    """Returns the normal form of columns.

    Args:
        columns: the filters.
        interface: int32 [F], the dense number of the interface of each filter.
    """
    names, strings = texts_of(columns.names), texts_of(columns.strings)
    pair = columns.name.astype(np.int64) * 4 + (columns.type - np.uint8(1))
    slot_of, slot_name, slot_type = slots_of(pair, len(columns.names))
    constraints = len(pair)
    start = np.zeros(columns.filters + 1, np.int64)
    satisfiable = np.ones(columns.filters, np.bool_)
    test, a, b = (
        np.empty(constraints, np.int32),
        np.empty(constraints, np.int64),
        np.empty(constraints, np.int64),
    )
    used = _normalise(
        columns.start,
        slot_of[pair],
        columns.type,
        columns.operator,
        columns.value,
        strings.start,
        address_of(strings.text),
        (start, satisfiable, test, a, b),
    )
    return NormalTable(
        interface, start, satisfiable, test[:used], a[:used], b[:used], slot_name, slot_type, names, strings
    )


def slots_of(code: npt.NDArray[np.int64], names: int) -> tuple[_Ints, _Ints, _Ints]:
    """Numbers the slots of constraints, the most frequent first.

    Each of the first 64 shares its bit in `Part.NEEDS` with rarer slots only.

    Args:
        code: of each constraint: number of its name * 4 + type - 1.
        names: the number of names.

    Returns:
        The slot of each code (-1: none has it); number of the name, and type, of each slot.
    """
    counts = np.bincount(code, minlength=4 * names)
    slots = np.flatnonzero(counts)
    slots = slots[np.argsort(-counts[slots], kind="stable")]
    slot_of = np.full(len(counts), -1, np.int32)
    slot_of[slots] = np.arange(len(slots), dtype=np.int32)
    return slot_of, (slots // 4).astype(np.int32), (slots % 4 + 1).astype(np.int32)


@callee
def key_of_double(bits: I64) -> I64:
    """Maps the bit pattern of a double to a key in the order of doubles; -0.0 is mapped as 0.0."""
    if bits == LOWEST:
        return 0
    return bits ^ ((bits >> 63) & HIGHEST)


@callee
def key_of_text(text: Address, length: I64) -> I64:
    """Maps the first eight of the bytes at an address, padded with zeros, to a key in their order."""
    key = np.uint64(0)
    for position in range(8):
        key = key << _BYTE | np.uint64(byte_at(text, position) if position < length else 0)
    return np.int64(key ^ _SIGN)


@callee
def _range(operator: I64, key: I64) -> Tuple:
    """Returns the lowest and the highest key that satisfy an operator with this key."""
    if operator == _EQ:
        return key, key
    if operator == _LT:
        return (LOWEST, key - 1) if key > LOWEST else (HIGHEST, LOWEST)
    if operator == _GT:
        return (key + 1, HIGHEST) if key < HIGHEST else (HIGHEST, LOWEST)
    if operator == _LE:
        return LOWEST, key
    if operator == _GE:
        return key, HIGHEST
    return LOWEST, HIGHEST


@kernel
def _normalise(
    starts: Array,
    slots: Array,
    types: Array,
    operators: Array,
    values: Array,
    string_start: Array,
    text: Address,
    result: Array,
) -> I64:
    """Fills the arrays of a `NormalTable`; returns the number of records."""
    start, satisfiable, tests, lows, highs = result
    used = 0
    for number in range(len(starts) - 1):
        first = used
        for at in range(starts[number], starts[number + 1]):
            value, operator, kind = values[at], operators[at], types[at]
            low, high = np.int64(0), np.int64(0)
            if kind == STRING:
                test = _STRING_TESTS[operator]
                if operator != _ANY:
                    begin, end = string_start[value], string_start[value + 1]
                    if begin == end and operator >= _PREFIX:
                        # Every string has the empty pattern.
                        test = _IS_STRING
                    else:
                        low, high = key_of_text(text + begin, end - begin), value
            elif operator == _NE:
                test, low = _DIFFERS, key_of_double(value) if kind == DOUBLE else value
            else:
                test = _RANGE
                low, high = _range(operator, key_of_double(value) if kind == DOUBLE else value)
                if kind == BOOLEAN:
                    low, high = max(low, np.int64(0)), min(high, np.int64(1))
            joined = False
            code = slots[at] * ACCESSES + test
            for other in range(max(first, used - _LOOK_BACK), used):
                if tests[other] == code:
                    if test == _RANGE:
                        lows[other], highs[other] = max(lows[other], low), min(highs[other], high)
                        joined = True
                    elif lows[other] == low and highs[other] == high:
                        joined = True
                    if joined:
                        low, high = lows[other], highs[other]
                        break
            if test == _RANGE and low > high:
                satisfiable[number] = False
            if not joined:
                tests[used], lows[used], highs[used] = code, low, high
                used += 1
        if not satisfiable[number]:
            used = first
        start[number + 1] = used
    return used
