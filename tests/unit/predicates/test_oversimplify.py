from random import Random

import pytest

from router.predicates.covering.algebra import covers, simplify
from router.predicates.covering.widening import oversimplify
from router.predicates.model import EVERYTHING, NOTHING
from router.predicates.parser import parse_predicate
from router.predicates.printer import format_predicate

PAPER = "price > 50 and price < 200 or price = 250 or price > 500"


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        (PAPER, 1, "price > 50"),  # section 3.5.6
        (PAPER, 2, "price > 50 and price <= 250 or price > 500"),
        (PAPER, 3, "price = 250 or price > 50 and price < 200 or price > 500"),
        ("price > 50 and price < 200 or price < 100", 1, "price < 200"),  # section 3.5.6, exact
        ("x = 1 or x = 3 or x = 100 and y = 1", 2, "x = 100 and y = 1 or x > 0 and x < 4"),
        ("x = 1 and y = 1 or x = 1 and z = 1", 1, "x = 1"),
        ("x = 1 or y = 1", 1, "*"),
        ("x = 1 or x = 1.5", 1, "*"),
        ("x < 3 and y = 1 or x > 3 and y = 2", 1, "x != 3 and y > 0 and y < 3"),
        ('s *= "gate" or s *= "agate" and x = 1 or y = 1 and s *= "late"', 1, 's *= "ate"'),
        ('s ** "ab" and s ** "c" or s ** "dabd"', 1, 's ** "ab"'),
        ('s =* "ab" or s =* "ad"', 1, 's >= "ab" and s < "ae"'),
        ("b = true and x = 1 or b = false and x = 2", 1, "b any boolean and x > 0 and x < 3"),
        ("none", 1, "none"),
        ("*", 1, "*"),
    ],
)
def test_worked_examples(text: str, most: int, expected: str) -> None:
    p = parse_predicate(text)
    wide = oversimplify(p, most)
    assert format_predicate(wide) == expected
    assert covers(wide, p)


def test_there_must_be_room_for_a_filter() -> None:
    with pytest.raises(ValueError, match="max_filters is 0; expected 1 or more"):
        oversimplify(EVERYTHING, 0)
    assert oversimplify(NOTHING, 1) == NOTHING


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


def test_a_thousand_filters() -> None:
    random = Random(2)
    texts = []
    for _ in range(1000):
        x, y = random.randrange(10**6), random.randrange(10**6)
        texts.append(f"x > {x} and x < {x + 5000} and y > {y} and y < {y + 5000}")
    p = parse_predicate(" or ".join(texts))
    assert len(simplify(p)) > 900
    wide = oversimplify(p, 50)
    assert 1 < len(wide) <= 50
    assert covers(wide, p)
    assert oversimplify(p, 50) == wide
