"""Bounds on predicates, and the steps that the algebra takes for predicates made to be expensive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from router.predicates.covering import intervals, patterns, values
from router.predicates.covering.bitset import bits_of, numbers_in
from router.predicates.covering.budget import (
    MERGED_MAX,
    weight_of,
    widen,
)
from router.predicates.covering.normal import NormalFilter, normalise
from router.predicates.covering.pool import PAIRS_MAX, FilterPool
from router.predicates.covering.values import ValueSet
from router.predicates.model import EVERYTHING, Constraint, Filter, Operator, Predicate, Type
from router.predicates.parser import parse_predicate


def _text(random: Random, length: int = 8) -> str:
    return "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=length))


def _substrings(count: int) -> list[Constraint]:
    random = Random(1)
    return [Constraint("s", Type.STRING, Operator.SUBSTRING, _text(random)) for _ in range(count)]


class _Counter:
    """Counts the calls of a function, or the sum of what `measure` makes of their arguments."""

    def __init__(self, function: Callable[..., Any], measure: Callable[..., int] = lambda *_: 1) -> None:
        self._function, self._measure = function, measure
        self.count = 0

    def __call__(self, *arguments: Any) -> Any:
        self.count += self._measure(*arguments)
        return self._function(*arguments)


def test_many_substrings_are_not_compared_each_with_each(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = _Counter(values.common_texts)
    monkeypatch.setattr(patterns, "common_texts", texts)
    failures = _Counter(NormalFilter.failures)
    monkeypatch.setattr(NormalFilter, "failures", lambda *pair: failures(*pair))
    pool = FilterPool()
    predicate = Predicate(tuple(Filter((constraint,)) for constraint in _substrings(2_000)))
    members = pool.add(0, pool.numbers(predicate))
    assert members.bit_count() == 2_000
    assert texts.count <= 2 * 2_000
    assert failures.count <= 100


def test_many_constraints_on_one_attribute_are_not_compared_each_with_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = _Counter(values._includes_strings, lambda a, b: len(a.substrings) + len(b.substrings))
    monkeypatch.setattr(values, "_includes_strings", sizes)
    steps = _Counter(intervals.intersection, lambda a, b: len(a) + len(b))
    monkeypatch.setattr(intervals, "intersection", steps)
    random = Random(2)
    unequal = [Constraint("s", Type.STRING, Operator.NE, _text(random)) for _ in range(2_000)]
    normal = normalise(Filter(tuple(_substrings(2_000) + unequal)))
    assert normal is not None
    assert len(normal.attributes["s"].substrings) == 2_000
    assert sizes.count <= 10_000
    assert steps.count <= 10_000


def test_a_filter_on_many_attributes_keeps_no_copy_of_them_for_each() -> None:
    normal = normalise(Filter(tuple(Constraint(f"a{n}", Type.INTEGER, Operator.GT, n) for n in range(2_000))))
    assert normal is not None
    assert sum(map(len, normal.families.values())) <= 10 * 2_000


def test_substrings_that_others_contain_are_removed() -> None:
    (simple,) = (normalise(parse_predicate('s ** "bc" and s ** "abcd" and s ** "x"').filters[0]),)
    assert simple is not None
    assert simple.attributes["s"].substrings == ("abcd", "x")
    assert isinstance(simple.attributes["s"], ValueSet)


class _Compared:
    """Counts the pairs of filters that pools compare."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("_compare", "_compare_covered"):
            monkeypatch.setattr(FilterPool, name, self._counted(getattr(FilterPool, name)))

    def _counted(self, whole: Callable[..., None]) -> Callable[..., None]:
        def counted(pool: FilterPool, relations: Any, others: int) -> None:
            self.count += others.bit_count()
            whole(pool, relations, others)

        return counted


def test_a_pattern_counts_as_several_comparisons_with_ranges_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interval of strings is taken apart for each pattern that it is compared with."""
    compared = _Compared(monkeypatch)
    pool = FilterPool()
    suffixes = " or ".join(f's > "a" and s < "c" and s *= "{n}"' for n in range(100, 200))
    members = pool.add(0, pool.numbers(parse_predicate(suffixes)))
    (interval,) = pool.numbers(parse_predicate('s > "aa" and s < "c"'))
    compared.count = 0
    assert pool.covered_members(interval, members) == (0, 0)
    assert compared.count == 0
    pool.covered_members(interval, bits_of(list(numbers_in(members))[:20]))
    assert compared.count == 20


def test_beyond_its_weight_a_predicate_is_merged_by_attributes() -> None:
    predicate = parse_predicate("x = 1 or x = 2 or x = 7 or y = 3 or x = 9 or y = 5")
    expected = parse_predicate("x = 1 or x = 2 or x > 6 and x < 10 or y > 2 and y < 6")
    assert widen(predicate, 10, 4, 100) == (list(expected), 4, True)
    assert _widened(predicate, weight=0) == parse_predicate("x > 0 and x < 10 or y > 2 and y < 6")


def test_beyond_a_number_of_filters_a_predicate_is_merged() -> None:
    predicate = parse_predicate("x = 1 or y = 2 or x = 5 or x = 9")
    assert _widened(predicate, most=2) == parse_predicate("x = 1 or y = 2 or x > 4 and x < 10")
    assert _widened(parse_predicate("x = 1 or y = 2"), most=2) == parse_predicate("x = 1 or y = 2")


def test_a_filter_keeps_its_leading_constraints() -> None:
    three = parse_predicate("x = 1 and y = 2 and z = 3")
    assert _widened(three, filter_weight=3) == parse_predicate("x = 1 and y = 2")
    long = Filter((Constraint("s", Type.STRING, Operator.EQ, "a" * 1_000),))
    assert _widened(Predicate((long,)), filter_weight=3) == EVERYTHING


def test_many_sets_of_attributes_become_one_filter() -> None:
    predicate = Predicate(
        tuple(Filter((Constraint(f"a{n}", Type.INTEGER, Operator.EQ, n),)) for n in range(1_000))
    )
    assert _widened(predicate, weight=1) == EVERYTHING


def test_many_filters_beyond_the_bounds_become_one_and_the_rest_is_not_read() -> None:
    read = []

    def filters() -> Iterator[Filter]:
        for number in range(2 * MERGED_MAX):
            read.append(number)
            yield Filter((Constraint("x", Type.INTEGER, Operator.EQ, number),))

    assert widen(filters(), 100, 10, 100) == (list(EVERYTHING), 10, True)
    assert len(read) == 5 + MERGED_MAX + 1


def _widened(
    predicate: Predicate, filter_weight: int = 100, weight: int = 10_000, most: int = 100
) -> Predicate:
    return Predicate(tuple(widen(predicate, filter_weight, weight, most)[0]))


@pytest.mark.parametrize(
    "boxes", ["x > {0} and x < {1} and y > {2} and y < {3}", 's > "a" and s < "c" and s *= "{0}"']
)
def test_a_filter_is_compared_with_few_others(monkeypatch: pytest.MonkeyPatch, boxes: str) -> None:
    compared = _Compared(monkeypatch)
    filters: list[Filter] = []
    for n in range(1_000):
        filters += parse_predicate(boxes.format(n, n + 2_000, 1_000 - n, 3_000 - n)).filters
    pool = FilterPool()
    numbers = pool.numbers(Predicate(tuple(filters)))
    members = pool.add(0, numbers)
    assert compared.count <= 2 * PAIRS_MAX * 1_000
    assert pool.covers_all(members, bits_of(numbers))


def test_a_heavy_filter_is_weighed_without_reading_it() -> None:
    read: list[int] = []

    class Counted(tuple[Constraint, ...]):
        __slots__ = ()

        def __iter__(self) -> Any:
            read.append(1)
            return super().__iter__()

    constraints = _substrings(1) * 5_001
    assert weight_of(Filter(Counted(constraints))) == 5_002
    assert read == []
    assert weight_of(Filter(tuple(constraints[:5_000]))) == 1 + 5_000 * 60 + 5_000 * 9 // 160


@pytest.mark.parametrize("text", ["x >= {0} and x < {1} and y < {2}", "x != {0} and y != {2}"])
def test_a_comparison_knows_corners_and_covers(text: str) -> None:
    random = Random(3)
    pool = FilterPool(pairs=10_000)
    filters: list[Filter] = []
    for _ in range(150):
        low = random.randrange(50)
        filters += parse_predicate(
            text.format(low, low + random.randrange(1, 50), random.randrange(9))
        ).filters
    numbers = pool.numbers(Predicate(tuple(filters)))
    members = bits_of(numbers)
    found = 0
    for number in numbers:
        pool.covers(members & ~(1 << number), number, jointly=False)
        relations = pool._relations[number]
        mine = pool.filter(number)
        for other in numbers_in(members & relations.compared_covers):
            failed = pool.filter(other).failures(mine)
            assert (relations.covers >> other & 1) == (not failed)
            for name in mine.attributes:
                alone = failed == [name]
                assert (relations.covers_except.get(name, 0) >> other & 1) == alone
                found += alone
            theirs = pool.filter(other).attributes
            pairs = [(theirs[name].intervals, mine.attributes[name]) for name in theirs]
            assert (relations.low_corner >> other & 1) == all(
                intervals.contains(own, values.intervals[0][0]) for own, values in pairs
            )
            assert (relations.high_corner >> other & 1) == all(
                intervals.contains_below(own, values.intervals[-1][1]) for own, values in pairs
            )
    assert found


@pytest.mark.parametrize("wide", ["id < 1000", "*", "id < 1000 and id any integer"])
def test_a_filter_that_covers_many_takes_their_place(wide: str) -> None:
    pool = FilterPool()
    many = " or ".join(f'id = {n} and name = "n{n}"' for n in range(0, 2_000, 2))
    members = pool.add(0, pool.numbers(parse_predicate(many)))
    (number,) = pool.numbers(parse_predicate(wide))
    grown = pool.add(members, [number])
    assert grown.bit_count() == (1 if wide == "*" else 501)
    assert pool.covers_all(grown, members)
