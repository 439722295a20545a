"""The index of filters and sets of members: families with equal keys, long texts, thresholds, the order."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from router.predicates import Constraint, Filter, Operator, Type, type_of
from router.predicates.covering import patterns
from router.predicates.covering.bitset import Thresholds, bits_of, numbers_in
from router.predicates.covering.index import FilterIndex
from router.predicates.covering.normal import Attribute, NormalFilter, normalise
from router.predicates.parser import parse_predicate
from tests.support.predicate_worlds import HOSTILE_VALUES

_X: Attribute = ("x", Type.INTEGER)


def _normal(text: str) -> NormalFilter:
    normal = normalise(parse_predicate(text).filters[0])
    assert normal is not None
    return normal


def _colliding(number: int, other: int) -> NormalFilter:
    """As if the hashes of all values of `collided` were equal."""
    # Not from the cache of `normalise`, which other tests use.
    found = NormalFilter(_normal(f"x = {number} and collided = {other}").attributes)
    found.families[_X] = ("x",)
    return found


def test_filters_of_two_families_with_the_same_key_are_not_merged() -> None:
    filters = [_colliding(n // 2, n % 2) for n in range(4)]
    index = FilterIndex()
    for each in filters:
        index.add(each)
    assert [index.mergeable(each, _X, ~(1 << n)) for n, each in enumerate(filters)] == [4, 8, 1, 2]
    # The family that had the key first is gone.
    index.remove(0b0101)
    other = _colliding(2, 1)
    bit = index.add(other)
    assert index.mergeable(other, _X, ~bit) == 0b1010 & ~bit


def _patterns(index: FilterIndex) -> patterns.PatternIndex:
    found = index.attribute(("s", Type.STRING))
    assert found is not None
    assert found.patterns is not None
    return found.patterns


def test_texts_are_found_by_each_of_their_grams() -> None:
    rng = random.Random(1)
    # More than the index keeps as numbers of one gram.
    count = patterns._FEW + 20
    texts = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=patterns.LONGEST)) for _ in range(count)]
    index = FilterIndex()
    for text in texts:
        index.add(_normal(f's ** "{text}"'))
    for number, text in enumerate(texts):
        for length in (1, 2, 7, 8, 20):
            at = rng.randrange(patterns.LONGEST - length)
            asked = _normal(f's ** "{text[at : at + length]}"')
            found = set(numbers_in(_patterns(index).with_patterns_of(asked.attributes["s"])))
            gram = patterns.gram_of(text[at : at + length])
            assert found == {other for other, each in enumerate(texts) if gram in each}
            assert number in found
    index.remove((1 << len(texts)) - 1 & ~0b110)
    whole = _normal(f's ** "{texts[2][:9]}"').attributes["s"]
    assert _patterns(index).with_patterns_of(whole) == 0b100


def test_filters_are_in_the_order_of_their_constraints() -> None:
    names = ("a", "a\0", "a\0b", "aa", "b", "ä")
    values = [value for each in HOSTILE_VALUES.values() for value in each]
    rng = random.Random(3)
    filters = [
        Filter(
            tuple(
                Constraint(name, type_of(value), Operator.EQ, value)
                for name in sorted(rng.sample(names, rng.randrange(3)))
                for value in [rng.choice(values)]
            )
        )
        for _ in range(400)
    ]
    normals = [normal for each in filters if (normal := normalise(each)) is not None]

    def constraints(normal: NormalFilter) -> tuple[tuple[object, ...], ...]:
        return tuple((c.name, int(c.type), int(c.operator), c.value) for c in normal.filter)

    assert [constraints(each) for each in sorted(normals, key=lambda normal: normal.key)] == sorted(
        map(constraints, normals)
    )


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
