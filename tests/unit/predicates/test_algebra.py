from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from weakref import ref

import pytest

from router.predicates import EVERYTHING, NOTHING, Constraint, Filter, Operator, Predicate, Type, matches
from router.predicates.covering.algebra import PredicateBuilder, simplify
from router.predicates.covering.pool import FilterPool
from router.predicates.covering.widening import MERGED_MAX, oversimplify, widen
from router.predicates.parser import parse_message, parse_predicate
from router.predicates.printer import format_predicate
from tests.support.algebra import covers, disjoin
from tests.support.cases import cases_beside
from tests.support.costs import calls_of
from tests.support.protocol_network import integer

_CASES = cases_beside(__file__)


def test_the_message_of_the_paper_matches_its_predicate() -> None:
    message = parse_message('carrier = "UA", dest = "ORD", price = 300, upgradeable = true')
    assert matches(parse_predicate('dest = "ORD" and price < 400'), message)
    assert not matches(parse_predicate('dest = "ORD" and price < 300'), message)
    assert not matches(parse_predicate("price < 400.0"), message), "types differ"
    assert not matches(parse_predicate("upgradeable = 1"), message), "types differ"
    assert matches(parse_predicate("upgradeable > false"), message)
    assert matches(EVERYTHING, message)
    assert not matches(NOTHING, message)


@pytest.mark.parametrize(("p", "q", "relation"), _CASES["covering"])
def test_covering(p: str, q: str, relation: str) -> None:
    first, second = parse_predicate(p), parse_predicate(q)
    assert covers(first, second) == (relation != "neither")
    assert covers(second, first) == (relation == "equal")


@pytest.mark.parametrize(("text", "expected"), _CASES["simplified"])
def test_simplification(text: str, expected: str) -> None:
    simple = simplify(parse_predicate(text))
    assert format_predicate(simple) == expected
    assert simplify(simple) is simple


def grid(sides: int, *, hole: bool) -> Predicate:
    """Cells of a chequered square of `sides` rows, made so that no two can be merged."""
    cells = []
    for x in range(sides):
        for y in range(sides):
            if hole and x == y == sides - 1:
                continue
            right, top = (11, 10) if (x + y) % 2 else (10, 11)
            cells.append(f"x >= {10 * x} and x < {10 * x + right} and y >= {10 * y} and y < {10 * y + top}")
    return parse_predicate(" or ".join(cells))


@pytest.mark.parametrize(("sides", "hole", "undecided"), [(6, False, 0), (6, True, 0), (30, False, 1)])
def test_searches_that_were_cut_off_are_counted(sides: int, hole: bool, undecided: int) -> None:
    pool = FilterPool()
    builder = PredicateBuilder(grid(sides, hole=hole), pool=pool)
    side = 10 * sides
    square = parse_predicate(f"x >= 0 and x < {side} and y >= 0 and y < {side}")
    before = pool.undecided
    assert builder.covers(square) == (sides == 6 and not hole)
    assert pool.undecided - before == undecided


def test_what_a_table_was_before_it_grew_is_not_kept() -> None:
    table = parse_predicate("x = 1 and y = 1")
    before = ref(table)
    table = disjoin(table, parse_predicate("x = 5 and y = 5"))
    assert before() is None
    assert covers(table, parse_predicate("x = 5 and y = 5 and z = 1"))


# Over-simplification and bounds on predicates, and the steps for predicates made to be expensive.


PAPER = "price > 50 and price < 200 or price = 250 or price > 500"


@pytest.mark.parametrize(("text", "most", "expected"), _CASES["oversimplified"])
def test_worked_examples(text: str, most: int, expected: str) -> None:
    p = parse_predicate(text)
    wide = oversimplify(p, most)
    assert format_predicate(wide) == expected
    assert covers(wide, p)


def test_close_filters_are_merged_before_distant_ones() -> None:
    random = Random(1)
    centres = {"x": 1000, "y": 2000, "z": 3000, "w": 4000}
    texts = []
    for name, centre in centres.items():
        for _ in range(10):
            low = centre + random.randrange(100)
            texts.append(f"{name} > {low} and {name} < {low + 3} and v = 1")
    p = parse_predicate(" or ".join(texts))
    assert len(simplify(p)) > 20
    wide = oversimplify(p, 4)
    assert {next(c.name for c in f if c.name != "v") for f in wide} == set(centres)
    assert covers(wide, p)


def _text(random: Random, length: int = 8) -> str:
    return "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=length))


def _substrings(count: int) -> list[Constraint]:
    random = Random(1)
    return [Constraint("s", Type.STRING, Operator.SUBSTRING, _text(random)) for _ in range(count)]


def _of_each(size: int, text: str) -> Predicate:
    """Filters that no smaller predicate has, so that the cache of `normalise` helps neither."""
    texts = (text.format(n, n + 2 * size, 3 * size - n, 5 * size - n) for n in range(size, 2 * size))
    return Predicate(tuple(filter_ for each in texts for filter_ in parse_predicate(each)))


@pytest.mark.parametrize(
    "made",
    [
        lambda size: Predicate(tuple(Filter((constraint,)) for constraint in _substrings(size))),
        lambda size: Predicate((Filter(tuple(_substrings(size))),)),
        lambda size: Predicate((Filter(tuple(integer(f"a{n}", Operator.GT, n) for n in range(size))),)),
        lambda size: Predicate((Filter(tuple(integer("s", Operator.NE, n) for n in range(size))),)),
        partial(_of_each, text="x > {0} and x < {1} and y > {2} and y < {3}"),
        partial(_of_each, text='s > "a" and s < "c" and s *= "{0:05}"'),
    ],
    ids=["substrings", "substrings of a filter", "attributes", "unequal", "boxes", "suffixes in an interval"],
)
def test_the_work_for_a_predicate_does_not_grow_with_its_square(made: Callable[[int], Predicate]) -> None:
    """Twice as many filters or constraints, at most three times the calls."""

    def work(size: int) -> int:
        predicate, pool = made(size), FilterPool()
        return calls_of(lambda: pool.add(0, pool.numbers(predicate)))

    assert work(1_000) < 3 * work(500)


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


@pytest.mark.parametrize("wide", ["id < 1000", "*", "id < 1000 and id any integer"])
def test_a_filter_that_covers_many_takes_their_place(wide: str) -> None:
    pool = FilterPool()
    many = " or ".join(f'id = {n} and name = "n{n}"' for n in range(0, 2_000, 2))
    members = pool.add(0, pool.numbers(parse_predicate(many)))
    (number,) = pool.numbers(parse_predicate(wide))
    grown = pool.add(members, [number])
    assert grown.bit_count() == (1 if wide == "*" else 501)
    assert pool.covers_all(grown, members)
