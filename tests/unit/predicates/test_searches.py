"""Sets of members by thresholds."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from router.predicates.covering.bitset import Thresholds, bits_of, numbers_in


@pytest.mark.parametrize("draw", [lambda rng: rng.randrange(4_000), lambda rng: rng.randrange(40)])
def test_thresholds_are_those_of_all_members(draw: Callable[[random.Random], int]) -> None:
    rng = random.Random(3)
    index, keys = Thresholds(), dict[int, int]()
    for number in range(3_000):
        keys[number] = draw(rng)
        index.add(keys[number], 1 << number)
        if number % 1_000 == 999:
            gone = bits_of(rng.sample(sorted(keys), 400))
            index.remove(gone)
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
