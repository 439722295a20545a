"""Searches in the index count as work: the more, the more filters a router's tables have."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from router.predicates.covering import bitset
from router.predicates.covering.bitset import Bits, Thresholds, bits_of, numbers_in
from router.predicates.covering.budget import DEFAULT_LIMITS
from router.predicates.covering.index import FilterIndex
from router.predicates.covering.normal import NormalFilter
from router.predicates.covering.pool import FilterPool, question_pairs
from router.predicates.parser import parse_predicate
from tests.support.one_router import set_up

_ATTRIBUTES = 5


def _boxes(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    ranges = [[rng.randrange(1_000) for _ in range(_ATTRIBUTES)] for _ in range(count)]
    return [
        " and ".join(f"a{place} >= {low} and a{place} < {low + 3}" for place, low in enumerate(lows))
        for lows in ranges
    ]


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each search in an index of filters."""
    made: list[int] = []
    whole = FilterIndex.related

    def related(index: FilterIndex, filter_: NormalFilter) -> tuple[Bits, Bits]:
        made.append(1)
        return whole(index, filter_)

    monkeypatch.setattr(FilterIndex, "related", related)
    return made


@pytest.mark.parametrize(("filters", "most"), [(0, 500), (8_192, 125), (50_000, 26)])
def test_a_turn_makes_fewer_searches_in_a_larger_table(filters: int, most: int, searches: list[int]) -> None:
    pool = FilterPool()
    numbers = pool.numbers(parse_predicate(" or ".join(_boxes(1, 800))))
    table, others = bits_of(numbers[:200]), numbers[200:]
    with pool.bounded(DEFAULT_LIMITS.turn_pairs, filters):
        found = pool.add(table, others)
    assert 0.8 * most < len(searches) <= most
    # Nothing is lost, and the answer is the same for a process that knows all relations.
    assert found == bits_of(numbers)
    pool.search(numbers, 0, 1_000_000)
    with pool.bounded(DEFAULT_LIMITS.turn_pairs, filters):
        assert pool.add(table, others) == found


def test_a_union_asks_about_the_first_filters_in_canonical_order(searches: list[int]) -> None:
    pool = FilterPool()
    numbers = pool.numbers(parse_predicate(" or ".join(_boxes(2, 700))))
    with pool.bounded(DEFAULT_LIMITS.turn_pairs, 50_000):
        assert pool.unite(bits_of(numbers[:100]), bits_of(numbers[50:])) == bits_of(numbers)
    assert len(searches) <= 26


def test_a_router_counts_the_filters_of_its_table() -> None:
    router = set_up()
    pool = router.content.pool
    assert isinstance(pool, FilterPool)
    router._routing.filters = 50_000
    with router._routing.bounded(7):
        assert (pool.allowance, pool.question) == (7, question_pairs(50_000))
    assert (pool.allowance, pool.question) == (None, question_pairs(0))


@pytest.mark.parametrize("draw", [lambda rng: rng.randrange(4_000), lambda rng: rng.randrange(40)])
def test_thresholds_are_those_of_all_members(draw: Callable[[random.Random], int]) -> None:
    rng = random.Random(3)
    index, keys = Thresholds(), dict[int, int]()
    for number in range(3_000):
        keys[number] = draw(rng)
        index.add(keys[number], 1 << number)
        if number % 1_000 == 999:
            gone = bits_of(rng.sample(sorted(keys), 400))
            for _ in index.remove(gone):
                pass
            keys = {each: key for each, key in keys.items() if not gone >> each & 1}
        if number % 50 == 0 or number % 1_000 == 999:
            bound = rng.choice([draw(rng), -1, 10_000])
            assert index.below(bound) == bits_of([each for each, key in keys.items() if key < bound])
            assert index.at_most(bound) == bits_of([each for each, key in keys.items() if key <= bound])


@pytest.mark.parametrize("size", [1, 200, 300, 2_000, 2_048, 2_049, 60_000])
@pytest.mark.parametrize("count", [0, 1, 31, 33, 1_000])
def test_the_numbers_of_a_set_come_in_order(size: int, count: int) -> None:
    numbers = sorted(random.Random(size).sample(range(size), min(count, size)))
    assert list(numbers_in(bits_of(numbers))) == numbers
    assert list(numbers_in(bitset.lowest(bits_of(numbers), 10))) == numbers[:10]
