"""Random conjunctions as arrays, and the disjunction of many of them without those that another one covers.

A conjunction has constraints on different names, so one covers another exactly if each of its constraints is
implied by a constraint of the other on the same name and type. A conjunction that no other covers is kept; of
equal ones, one. The result is a property of the set: the order of the conjunctions makes no difference.
Filters are not merged, and a filter that only several others cover together is kept; `merged` does both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from router.matching.columns import ConstraintColumns
from router.predicates import Constraint, Filter, Predicate, Type
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.covering.pool import FilterPool
from router.wire.predicate import encode_filter, encode_predicate
from testbed.experiments.siena_ff.generate import (
    INTEGER_OPERATORS,
    STRING_OPERATORS,
    MatchingWorkload,
    dictionary,
    different_names,
    draw_table,
)

#: Operators and words are those of the tables with which matching is measured: integers of 100 values, and
#: 1,000 words. A constraint is a number.
INTEGERS, WORDS = 100, 1_000
#: Attribute names, at most.
NAMES = 8_192
_INTEGER_OPERATORS, _STRING_OPERATORS = tuple(INTEGER_OPERATORS), tuple(STRING_OPERATORS)
#: Numbers of integer constraints come first.
FIRST_STRING = len(_INTEGER_OPERATORS) * INTEGERS
CODES = FIRST_STRING + len(_STRING_OPERATORS) * WORDS

MOST = 6
#: Pairs of conjunctions that are compared at once.
_PAIRS = 2_000_000

Ints = npt.NDArray[np.int16]
Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


@lru_cache(maxsize=1)
def words() -> tuple[str, ...]:
    """Returns the dictionary in ascending order."""
    return tuple(sorted(dictionary(WORDS)))


def codes_of(
    types: npt.NDArray[np.uint8], operators: npt.NDArray[np.uint8], values: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Returns the numbers of constraints in columns; a string is the rank of its word."""
    string = types == Type.STRING
    place = np.zeros((2, 256), np.int64)
    for row, known in enumerate((_INTEGER_OPERATORS, _STRING_OPERATORS)):
        place[row, list(known)] = range(len(known))
    operator = place[string.astype(np.int64), operators]
    # The place in `words` of the word of each rank.
    word = np.unique(dictionary(WORDS), return_inverse=True)[1]
    words_ = FIRST_STRING + operator * WORDS + word[np.where(string, values, 0)]
    found: npt.NDArray[np.int64] = np.where(string, words_, operator * INTEGERS + values)
    return found


def constraint(name: str, code: int) -> Constraint:
    if code < FIRST_STRING:
        return Constraint(name, Type.INTEGER, _INTEGER_OPERATORS[code // INTEGERS], code % INTEGERS)
    operator, word = divmod(code - FIRST_STRING, WORDS)
    return Constraint(name, Type.STRING, _STRING_OPERATORS[operator], words()[word])


def name_of(number: int) -> str:
    return f"a{number}"


@lru_cache(maxsize=1)
def constraint_bytes() -> npt.NDArray[np.int64]:
    """Returns the bytes that each constraint takes in a FILTER TLV, without those of its name."""
    alone = len(encode_filter(Filter(())))
    return np.array(
        [len(encode_filter(Filter((constraint("a", code),)))) - alone - 1 for code in range(CODES)]
    )


@lru_cache(maxsize=1)
def implies() -> Bools:
    """Returns bool [codes, codes]: every value that meets the first constraint meets the second."""
    found = np.zeros((CODES, CODES), np.bool_)
    _order(_blocks(found[:FIRST_STRING, :FIRST_STRING], INTEGERS), INTEGERS, 0, 1, 2)
    _strings(found[FIRST_STRING:, FIRST_STRING:])
    return found


def _blocks(found: Bools, size: int) -> Bools:
    """Returns a view [operators, operators, size, size]."""
    count = len(found) // size
    return found.reshape(count, size, count, size).swapaxes(1, 2)


def _order(found: Bools, size: int, equal: int, less: int, greater: int) -> None:
    row, column = np.arange(size)[:, None], np.arange(size)[None, :]
    found[equal][equal][:] = row == column
    found[equal][less][:] = row < column
    found[equal][greater][:] = row > column
    found[less][less][:] = row <= column
    found[greater][greater][:] = row >= column


def _strings(found: Bools) -> None:
    blocks, every = _blocks(found, WORDS), words()
    equal, prefix, suffix, substring, less, greater = range(6)
    _order(blocks, WORDS, equal, less, greater)
    starts, ends, holds = (
        np.array([[test(word, other) for other in every] for word in every])
        for test in (str.startswith, str.endswith, str.__contains__)
    )
    for weaker, meets in ((prefix, starts), (suffix, ends), (substring, holds)):
        blocks[equal][weaker][:] = meets
    blocks[prefix][prefix][:], blocks[prefix][substring][:] = starts, holds
    blocks[suffix][suffix][:], blocks[suffix][substring][:] = ends, holds
    blocks[substring][substring][:] = holds
    # The words that begin with p lie between p and the first word behind all of them.
    before = np.arange(WORDS)[:, None] < np.arange(WORDS)[None, :]
    blocks[prefix][less][:] = before & ~starts.T
    blocks[prefix][greater][:] = before.T


@dataclass(frozen=True)
class Conjunctions:
    """Conjunctions, one a row.

    Attributes:
        names: int16 [k, MOST]: twice the name, and 1 more for a string; ascending, -1 behind the last.
        codes: int16 [k, MOST]: the constraint on each name.
        sizes: the number of constraints.
    """

    names: Ints
    codes: Ints
    sizes: Rows

    @classmethod
    def of_columns(cls, table: ConstraintColumns) -> Conjunctions:
        """Returns the filters of a table of the slides' workload
        (`testbed.experiments.siena_ff.generate.draw_table`).

        Its names are at most 16,383, and the constraints of a filter have different names.
        """
        sizes = np.diff(table.start)
        rows = np.repeat(np.arange(table.filters), sizes)
        places = np.arange(table.constraints) - np.repeat(table.start[:-1], sizes)
        keys = np.zeros((table.filters, MOST), np.int64)
        keys[rows, places] = 2 * table.name.astype(np.int64) + (table.type == Type.STRING)
        values = np.full((table.filters, MOST), -1, np.int64)
        values[rows, places] = codes_of(table.type, table.operator, table.value)
        beyond = np.arange(MOST)[None, :] >= sizes[:, None]
        keys[beyond] = np.iinfo(np.int16).max
        order = np.argsort(keys, axis=1)
        keys, values = np.take_along_axis(keys, order, axis=1), np.take_along_axis(values, order, axis=1)
        keys[beyond] = -1
        return cls(keys.astype(np.int16), values.astype(np.int16), sizes)

    def part(self, start: int, count: int) -> Conjunctions:
        rows = slice(start, start + count)
        return Conjunctions(self.names[rows], self.codes[rows], self.sizes[rows])

    def wire_bytes(self) -> Rows:
        """Returns the bytes of each conjunction's FILTER TLV (docs/reference/wire-format.md)."""
        held = self.names >= 0
        name_bytes = np.array([len(name_of(number)) for number in range(NAMES)])
        names = name_bytes[np.where(held, self.names // 2, 0)] + constraint_bytes()[self.codes]
        found: Rows = len(encode_filter(Filter(()))) + np.where(held, names, 0).sum(axis=1)
        return found

    def filters(self) -> list[Filter]:
        return [
            Filter(tuple(constraint(name_of(name // 2), code) for name, code in zip(*pair, strict=True)))
            for row, size in enumerate(self.sizes.tolist())
            for pair in [(self.names[row, :size].tolist(), self.codes[row, :size].tolist())]
        ]


def draw(
    count: int,
    names: int,
    rng: np.random.Generator,
    *,
    zipf: bool = False,
    low: int = 1,
    high: int = MOST,
    **constraints: Any,
) -> Conjunctions:
    """Returns random conjunctions of the slides' workload (part II).

    Args:
        names: number of attribute names, at most 8,191; `zipf`: of Zipf frequency, else all alike.
        low, high: least and most constraints (uniform); at most as many as names.
        constraints: parameters of `MatchingWorkload` beside its defaults.
    """
    start = np.append(0, np.cumsum(rng.integers(low, high, count, endpoint=True)))
    workload = MatchingWorkload(int(start[-1]), 1, seed=int(rng.integers(2**32)), **constraints)
    chosen = different_names(names, float(zipf), rng, start)
    # Of the table, the constraints without their names and filters.
    interface = np.ones(count, np.int32)
    return Conjunctions.of_columns(
        replace(draw_table(workload), interface=interface, start=start, name=chosen)
    )


def kept(conjunctions: Conjunctions) -> Rows:
    """Returns the rows that the disjunction needs, in ascending order."""
    rows = np.ascontiguousarray(np.hstack([conjunctions.names, conjunctions.codes]))
    _, alone = np.unique(rows.view(np.dtype((np.void, rows.shape[1] * 2)))[:, 0], return_index=True)
    names, codes = conjunctions.names[alone], conjunctions.codes[alone]
    sizes = conjunctions.sizes[alone]
    needed = np.ones(len(alone), np.bool_)
    singles = np.flatnonzero(sizes == 1)
    implying = _implying(names[singles, 0], codes[singles, 0], int(names.max(initial=0)) + 1)
    # A constraint implies itself.
    needed[singles] = implying[names[singles, 0], codes[singles, 0]] == 1
    for size in range(2, MOST + 1):
        here = np.flatnonzero(sizes == size)
        here = here[~implying[names[here, :size], codes[here, :size]].any(axis=1)]
        needed[sizes == size] = False
        for few in range(2, size + 1):
            # The smaller ones that are needed; in the end, those of the same size.
            others = here if few == size else np.flatnonzero(needed & (sizes == few))
            covered = _covered(names, codes, here, size, others, few)
            here = here[~covered]
        needed[here] = True
    return np.sort(alone[needed])


def _implying(names: Ints, codes: Ints, count: int) -> Ints:
    """Returns int16 [names, codes]: how many conjunctions of one constraint a constraint is implied by."""
    found = np.zeros((count, CODES), np.int16)
    for name in np.unique(names):
        found[name] = implies()[:, codes[names == name]].sum(axis=1)
    return found


def _covered(names: Ints, codes: Ints, rows: Rows, size: int, others: Rows, few: int) -> Bools:
    """Returns for each of `rows` whether another of `others`, which have `few` constraints, covers it."""
    covered = np.zeros(len(rows), np.bool_)
    if not len(others) or not len(rows):
        return covered
    base = int(names.max()) + 1
    keys = _keys(names[others, :few], base)
    order = np.argsort(keys, kind="stable")
    others, keys = others[order], keys[order]
    for places in combinations(range(size), few):
        open_ = np.flatnonzero(~covered) if few < size else np.arange(len(rows))
        own = _keys(names[rows[open_]][:, places], base)
        first, end = np.searchsorted(keys, own, side="left"), np.searchsorted(keys, own, side="right")
        for row, other in _pairs(open_, first, end):
            a, b = rows[row], others[other]
            met = a != b
            for at, place in enumerate(places):
                met &= names[a, place] == names[b, at]
                met &= implies()[codes[a, place], codes[b, at]]
            covered[row[met]] = True
    return covered


def _keys(names: Ints, base: int) -> npt.NDArray[np.uint64]:
    """A number for each row of names; equal for equal rows, and for few others."""
    keys = np.zeros(len(names), np.uint64)
    for column in names.T:
        keys = keys * np.uint64(base) + column.astype(np.uint64)
    return keys


def _pairs(rows: Rows, first: Rows, end: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Each row with the numbers from its `first` to before its `end`, some pairs at a time."""
    counts = end - first
    filled = np.flatnonzero(counts)
    rows, first, counts = rows[filled], first[filled], counts[filled]
    ends = np.cumsum(counts)
    start = 0
    while start < len(rows):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _PAIRS, side="right")))
        some = counts[start:stop]
        begins = np.repeat(np.cumsum(some) - some, some)
        yield (
            np.repeat(rows[start:stop], some),
            np.repeat(first[start:stop], some) + np.arange(int(some.sum())) - begins,
        )
        start = stop


def alphas(conjunctions: Conjunctions) -> dict[str, float]:
    """Returns alpha by unit of M: the disjunction in constraints, and in bytes, over all conjunctions."""
    rows = kept(conjunctions)
    return {
        unit: float(each[rows].sum() / each.sum())
        for unit, each in (("constraints", conjunctions.sizes), ("bytes", conjunctions.wire_bytes()))
    }


def merged(conjunctions: Conjunctions) -> dict[str, float]:
    """Returns `alphas` of a disjunction as a router holds it.

    The conjunctions are in a `PredicateBuilder`, which takes their order into account; `undecided` has the
    searches for several filters that cover another together which were cut off, so that the filter was kept.
    """
    pool = FilterPool(pairs=sys.maxsize)
    filters = conjunctions.filters()
    union = PredicateBuilder(Predicate(tuple(filters)), pool=pool).predicate
    alone = [PredicateBuilder(Predicate((each,)), pool=pool).predicate for each in filters]
    return {
        "constraints": sum(map(len, union)) / sum(len(each) for predicate in alone for each in predicate),
        "bytes": len(encode_predicate(union)) / sum(len(encode_predicate(each)) for each in alone),
        "undecided": pool.undecided,
    }
