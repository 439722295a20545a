import pytest

from router.predicates import EVERYTHING, NOTHING, Filter, Predicate, matches
from router.predicates.covering.algebra import simplify
from router.predicates.parser import parse_message, parse_predicate
from router.predicates.printer import format_predicate
from tests.support.algebra import covers, disjoin
from tests.support.predicate_worlds import covers_filter


def one(text: str) -> Filter:
    (found,) = parse_predicate(text)
    return found


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
    ("a", "b"),
    [
        ("x > 3 and x < 5", "x = 4"),
        ("x >= 3 and x <= 5 and x != 4 and x != 5", "x = 3"),
        ("x > 3.0 and x != 3.0", "x > 3.0"),
        ("x = -0.0", "x = 0.0"),
        ("x != true", "x = false"),
        ("x > false", "x = true"),
        ("x <= true", "x any boolean"),
        ('s >= "a" and s < "b"', 's =* "a"'),
        ('s =* ""', "s any string"),
        ('s *= "bc" and s *= "c"', 's *= "bc"'),
        ('s ** "b" and s ** "abc"', 's ** "abc"'),
        ('s =* "abc" and s ** "b"', 's =* "abc"'),
        ('s *= "abc" and s != "x"', 's *= "abc"'),
        ('s >= "a" and s <= "a"', 's = "a"'),
        ("x > 9223372036854775807", "y = 1 and y = 2"),
        ("x any integer and x any double", 's = "a" and s = "b"'),
        ('s *= "ab" and s *= "ba"', 's = "abc" and s ** "d"'),
    ],
)
def test_conjunctions_that_mean_the_same(a: str, b: str) -> None:
    assert covers_filter(one(a), one(b))
    assert covers_filter(one(b), one(a))
    assert simplify(parse_predicate(a)) == simplify(parse_predicate(b))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ('s >= "ab"', 's =* "ab"'),
        ('s ** "b"', 's =* "ab"'),
        ("s any string", 's =* "ab"'),
        ('s > "b"', 's =* "c"'),
        ('s ** "b"', 's *= "abc"'),
        ('s *= "c"', 's = "abc"'),
        ('s != "abd"', 's =* "abc"'),
        ('s != "x"', 's *= "abc"'),
        ('s ** "ab"', 's > "ab" and s < "ac"'),
        ('s ** "c"', 's = "abc"'),
        ("x < 5", "x < 5 and y = 1"),
        ("x != 3", "x > 3"),
        ("x any double", "x <= 1e300"),
    ],
)
def test_strict_covering(a: str, b: str) -> None:
    assert covers_filter(one(a), one(b))
    assert not covers_filter(one(b), one(a))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("x < 5", "x < 5.0"),
        ("x any integer", "y = 1"),
        ('s ** "ab"', 's =* "a" and s ** "b"'),
        ('s *= "a"', 's =* "a"'),
        ('s > "b"', 's *= "c"'),
    ],
)
def test_incomparable(a: str, b: str) -> None:
    assert not covers_filter(one(a), one(b))
    assert not covers_filter(one(b), one(a))


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ("x < 5 or x >= 5", "x any integer"),
        ("x < 5 or x > 5", "x != 5"),
        ("price > 50 and price < 200 or price < 100", "price < 200"),
        ("price < 200", "price > 50 and price < 200 or price < 100"),
        ("x < 10 and y = 1 or x >= 10 and y >= 1", "y = 1 and x any integer"),
        ("b = true or b = false", "b any boolean"),
        ('s < "m" or s >= "m"', "s any string"),
        ("*", "x = 1"),
        ("x = 1", "none"),
        ("none", "x = 1 and x = 2"),
        # Four quarters, and a pinwheel around a centre: no two pieces differ in one attribute only.
        ("x < 5 and y < 5 or x < 5 and y >= 5 or x >= 5 and y < 5 or x >= 5 and y >= 5", "x = 1 and y = 1"),
        (
            "x < 4 and y < 2 or x >= 4 and y < 4 or x >= 2 and y >= 4 or x < 2 and y >= 2 or x = 2 and y = 2"
            " or x > 1 and x < 4 and y > 1 and y < 4",
            "x any integer and y any integer",
        ),
        ("x < 5 and y < 3 or x >= 5 or y >= 3", "x any integer and y any integer"),
        ('x < 5 or x >= 5 and s ** "b"', 'x any integer and s =* "ab"'),
        (
            "x < 1.5 and b = true or x >= 1.5 and z = 2 or b = false",
            "x any double and b any boolean and z = 2",
        ),
    ],
)
def test_covering_of_predicates(p: str, q: str) -> None:
    assert covers(parse_predicate(p), parse_predicate(q))


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ("x < 5 or x > 5", "x any integer"),
        ("x < 5.0 or x > 5.0", "x any double"),
        ("none", "*"),
        ("x any integer", "*"),
        ("x any integer", "x = 1 or y = 1"),
        # The pinwheel without its centre.
        (
            "x < 4 and y < 2 or x >= 4 and y < 4 or x >= 2 and y >= 4 or x < 2 and y >= 2",
            "x any integer and y any integer",
        ),
        ("x < 5 and y < 3 or x >= 5 or y >= 3", "x any integer"),
        ('x < 5 or x >= 5 and s ** "b"', 'x any integer and s =* "a"'),
    ],
)
def test_what_is_not_covered(p: str, q: str) -> None:
    assert not covers(parse_predicate(p), parse_predicate(q))


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
    table = Predicate(tuple(one(f'id = {i} and name = "n{i}"') for i in range(0, 2000, 2)))
    simple = simplify(table)
    assert len(simple) == 1000
    assert covers(simple, parse_predicate('id = 998 and name = "n998" and x = 1'))
    assert not covers(simple, parse_predicate('id = 999 and name = "n999"'))
    assert len(disjoin(simple, parse_predicate("id < 1000"))) == 501
