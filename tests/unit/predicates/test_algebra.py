from __future__ import annotations

from weakref import ref

import pytest

from router.predicates import EVERYTHING, NOTHING, Predicate, matches
from router.predicates.covering.algebra import PredicateBuilder, simplify
from router.predicates.covering.pool import FilterPool
from router.predicates.parser import parse_message, parse_predicate
from router.predicates.printer import format_predicate
from tests.support.algebra import covers, disjoin

_PLANE = "x any integer and y any integer"
_PLANE_OF_Z = "x any double and b any boolean and z = 2"
_PINWHEEL = "x < 4 and y < 2 or x >= 4 and y < 4 or x >= 2 and y >= 4 or x < 2 and y >= 2"


def test_the_message_of_the_paper_matches_its_predicate() -> None:
    message = parse_message('carrier = "UA", dest = "ORD", price = 300, upgradeable = true')
    assert matches(parse_predicate('dest = "ORD" and price < 400'), message)
    assert not matches(parse_predicate('dest = "ORD" and price < 300'), message)
    assert not matches(parse_predicate("price < 400.0"), message), "types differ"
    assert not matches(parse_predicate("upgradeable = 1"), message), "types differ"
    assert matches(parse_predicate("upgradeable > false"), message)
    assert matches(EVERYTHING, message)
    assert not matches(NOTHING, message)


@pytest.mark.parametrize(
    ("p", "q", "relation"),
    [
        ("x > 9223372036854775807", "y = 1 and y = 2", "equal"),
        ("x any integer and x any double", 's = "a" and s = "b"', "equal"),
        ('s =* "abc" and s ** "b"', 's =* "abc"', "equal"),
        ('s >= "a" and s < "b"', 's =* "a"', "equal"),
        ('s != "x"', 's *= "abc"', "covers"),
        ("x any double", "x <= 1e300", "covers"),
        ("x < 5", "x < 5 and y = 1", "covers"),
        ("*", "x = 1", "covers"),
        ("x any integer", "none", "covers"),
        ("x < 5", "x < 5.0", "neither"),
        ('s ** "ab"', 's =* "a" and s ** "b"', "neither"),
        ("x < 5.0 or x > 5.0", "x != 5.0", "equal"),
        ('s < "m" or s >= "m"', "s any string", "equal"),
        ("x < 10 and y = 1 or x >= 10 and y >= 1", "y = 1 and x any integer", "covers"),
        # A pinwheel around a centre: no two pieces differ in one attribute only.
        (f"{_PINWHEEL} or x = 2 and y = 2 or x > 1 and x < 4 and y > 1 and y < 4", _PLANE, "equal"),
        (_PLANE, _PINWHEEL, "covers"),
        ("x < 5 and y < 3 or x >= 5 or y >= 3", "x any integer", "neither"),
        ('x < 5 or x >= 5 and s ** "b"', 'x any integer and s =* "ab"', "covers"),
        ('x < 5 or x >= 5 and s ** "b"', 'x any integer and s =* "a"', "neither"),
        ("x < 1.5 and b = true or x >= 1.5 and z = 2 or b = false", _PLANE_OF_Z, "covers"),
    ],
)
def test_covering(p: str, q: str, relation: str) -> None:
    first, second = parse_predicate(p), parse_predicate(q)
    assert covers(first, second) == (relation != "neither")
    assert covers(second, first) == (relation == "equal")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("price > 50 and price < 200 or price < 100", "price < 200"),  # section 3.5.6
        ('price < 400 or dest = "ORD" and price < 300', "price < 400"),
        ("x < 5 or x >= 5", "x any integer"),
        ("x < 5 and y = 1 or x >= 5 and y = 1 or y = 1 and x = 3", "x any integer and y = 1"),
        ("x = 1 or x = 2 or x = 3", "x > 0 and x < 4"),
        ("x = 1 or x = 3", "x = 1 or x = 3"),
        ("x < 200 or x <= 199", "x < 200"),
        ("y = 1 or x = 1", "x = 1 or y = 1"),
        ("x >= 1.5 and x < 2.5 or x >= 2.5 and x <= 3.5", "x >= 1.5 and x <= 3.5"),
        (
            "x any integer and y < 10 or x < 5 and y < 20 or x >= 5 and y < 15",
            "x < 5 and y < 20 or x > 4 and y < 15",
        ),
        ('s = "abc" or s =* "ab" or s ** "b"', 's ** "b"'),
        # Four that overlap, and a box that lies across them.
        (
            "x > 1 and x < 7 and y > 1 and y < 7 or x < 4 and y < 4 or x > 3 and y < 6 or x > 2 and y > 5"
            " or x < 5 and y > 3",
            "x < 4 and y < 4 or x < 5 and y > 3 or x > 2 and y > 5 or x > 3 and y < 6",
        ),
        ("x = 1 and x = 2", "none"),
        ("x = 1 or *", "*"),
        ("none", "none"),
    ],
)
def test_simplification(text: str, expected: str) -> None:
    simple = simplify(parse_predicate(text))
    assert format_predicate(simple) == expected
    assert simplify(simple) is simple


def test_many_filters_are_kept_apart_and_found() -> None:
    table = parse_predicate(" or ".join(f'id = {i} and name = "n{i}"' for i in range(0, 2000, 2)))
    simple = simplify(table)
    assert len(simple) == 1000
    assert covers(simple, parse_predicate('id = 998 and name = "n998" and x = 1'))
    assert not covers(simple, parse_predicate('id = 999 and name = "n999"'))
    assert len(disjoin(simple, parse_predicate("id < 1000"))) == 501


def test_a_copy_goes_its_own_way() -> None:
    builder = PredicateBuilder(parse_predicate('s ** "b" and x = 1 or y = 2'))
    copy = builder.copy()
    assert copy.add(EVERYTHING)
    assert copy.predicate == EVERYTHING
    assert format_predicate(builder.predicate) == 's ** "b" and x = 1 or y = 2'
    assert not builder.covers(EVERYTHING)


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
