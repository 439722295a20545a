"""The seed of the compiled engine's hashes: filters whose hashes collide under one do not under another."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from itertools import islice, product

import numpy as np
import numpy.typing as npt
import pytest

from router.matching.columns import ColumnsBuilder
from router.matching.compiled import SEED, Access, Part, Search, Seed, drawn_seed, powers_of_base
from router.matching.compiled.engine import CompiledMatcher
from router.matching.compiled.normal import normal_table
from router.matching.compiled.segment import Segment
from router.matching.compiled.segments import working_memory
from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type, Value

_COUNT = 500
_WORD = 2**64
#: Of `mixed`: what slot 0 adds to the hash of a value, and the constants of the finalizer.
_SLOT = int(Access.EQUAL) * 0x27D4EB2F165667C5
_MIX = 0xC4CEB9FE1A85EC53, 0xFF51AFD7ED558CCD


def _plant(seed: npt.NDArray[np.int64]) -> None:
    """Gives the process another seed; tables that were made before are not valid."""
    SEED[:] = seed
    working_memory()._put(Search.POWERS, powers_of_base())


@pytest.fixture(autouse=True)
def _seed_of_the_process() -> Iterator[None]:
    before = SEED.copy()
    yield
    _plant(before)


def _integers() -> list[Value]:
    """Integers whose hashes have the same low 40 bits, by one who knows the seed."""
    factor, summand = (int(SEED[which]) % _WORD for which in (Seed.FACTOR, Seed.SUMMAND))
    found: list[Value] = []
    for number in range(_COUNT):
        mix = number << 40
        for constant in _MIX:
            mix = (mix ^ mix >> 33) * pow(constant, -1, _WORD) % _WORD
        mix ^= mix >> 33
        value = ((mix - summand) * pow(factor, -1, _WORD) - _SLOT) % _WORD
        found.append(value - _WORD if value >= _WORD // 2 else value)
    return found


def _texts() -> list[Value]:
    """Texts whose polynomials are equal at the place 2."""
    SEED[Seed.BASE] = 2
    return ["".join(parts) for parts in islice(product(("ac", "ba"), repeat=9), _COUNT)]


def _equal_to(value: Value) -> Filter:
    kind = Type.STRING if isinstance(value, str) else Type.INTEGER
    operator = Operator.SUBSTRING if isinstance(value, str) else Operator.EQ
    return Filter((Constraint("x", kind, operator, value),))


def _longest_probe(values: list[Value]) -> int:
    """How many places of the table of groups are read at most until a value is found."""
    columns = ColumnsBuilder()
    for value in values:
        columns.add(0, _equal_to(value))
    # The segment owns the memory that its parts are the addresses of.
    segment = Segment(normal_table(columns.build(), np.ones(len(values), np.int32)))
    parts = segment.parts
    size = 1 << int(parts[Part.GROUP_BITS])
    items = np.array((ctypes.c_int32 * size).from_address(int(parts[Part.GROUP_TABLE])))
    hashes = np.array((ctypes.c_int64 * size).from_address(int(parts[Part.GROUP_HASH])))
    places = np.flatnonzero(items >= 0)
    assert len(places) == len(values)
    return int(((places - hashes[places]) & (size - 1)).max()) + 1


def _answers(values: list[Value]) -> list[frozenset[int]]:
    matcher = CompiledMatcher()
    for interface, value in enumerate(values[:20], 1):
        matcher.set_predicate(interface, Predicate((_equal_to(value),)))
    return [matcher.match(Message({"x": value})) for value in values[:30]]


@pytest.mark.parametrize("crafted", [_integers, _texts])
def test_values_whose_hashes_collide_under_one_seed_do_not_under_another(
    crafted: Callable[[], list[Value]],
) -> None:
    _plant(drawn_seed())
    values = crafted()
    _plant(SEED.copy())
    # Whoever knew the constants in the code made each search as long as the table.
    assert _longest_probe(values) == _COUNT
    answers = _answers(values)
    _plant(drawn_seed())
    assert _longest_probe(values) < _COUNT // 5
    assert _answers(values) == answers == [frozenset({n} if n <= 20 else ()) for n in range(1, 31)]


def test_each_process_draws_its_own_seed() -> None:
    seeds = [drawn_seed() for _ in range(3)]
    assert len({seed.tobytes() for seed in seeds}) == 3
    for seed in seeds:
        assert 256 < seed[Seed.BASE] < 2**31 - 1
        assert seed[Seed.FACTOR] % 2 == 1
