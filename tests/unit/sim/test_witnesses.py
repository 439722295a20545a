"""Messages of a filter that other filters leave out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from router.predicates.covering.bitset import bits_of
from router.predicates.covering.pool import FilterPool
from router.predicates.parser import parse_predicate
from testbed.sim.witnesses import Witnesses
from tests.support.predicate_worlds import MIXED, predicates


def test_a_message_between_two_filters_is_found() -> None:
    pool = FilterPool()
    (wide,) = pool.numbers(parse_predicate("x > 0 and x < 10"))
    low, high = (pool.numbers(parse_predicate(text))[0] for text in ("x < 4", "x > 4"))
    joined = pool.numbers(parse_predicate("x < 5"))[0]
    witnesses = Witnesses(pool, 8)
    assert witnesses.find(wide, bits_of((low, high))) == (0, 1, bits_of((joined,)))
    assert witnesses.rows(wide) == [bits_of((joined,))]
    assert witnesses.find(wide, bits_of((joined, high))) is None


def test_the_message_of_a_filter_with_a_substring_has_it() -> None:
    pool = FilterPool()
    (wide,) = pool.numbers(parse_predicate('s ** "ab"'))
    (prefixed,) = pool.numbers(parse_predicate('s =* "x"'))
    found = Witnesses(pool, 8).find(wide, bits_of((prefixed,)))
    assert found == (0, 1, 0)


def test_the_message_found_last_takes_the_place_of_an_earlier_one() -> None:
    pool = FilterPool()
    (wide,) = pool.numbers(parse_predicate("x any integer"))
    others = [pool.numbers(parse_predicate(f"x < {number}"))[0] for number in range(5)]
    witnesses = Witnesses(pool, 2)
    places = [found[:2] for each in others if (found := witnesses.find(wide, 1 << each)) is not None]
    assert places == [(0, 1), (1, 2), (0, 2), (1, 2), (0, 2)]


@given(predicates("xy", MIXED).filter(bool), st.lists(predicates("xy", MIXED).filter(bool), max_size=5))
def test_filters_without_the_message_do_not_cover(one: object, others: list[object]) -> None:
    pool = FilterPool()
    numbers = pool.numbers(one)  # type: ignore[arg-type]
    members = 0
    for other in others:
        members |= bits_of(pool.numbers(other))  # type: ignore[arg-type]
    witnesses = Witnesses(pool, 8)
    for number in numbers:
        near = members & pool.compared(number).possible_covers
        if (found := witnesses.find(number, near)) is not None:
            assert not found[2] & near
            assert not pool.covers(near, number)
