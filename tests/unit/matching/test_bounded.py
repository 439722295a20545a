"""Searches that would take longer than a turn of a router: what is not decided in time counts as matching."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from router.content import Plain
from router.matching.engines import Matcher, factory
from router.predicates import Constraint, Filter, Message, Operator, Type
from router.protocol.routing import RoutingTable

_LONG = "a" * 60_000
_MESSAGE = Message({"s": _LONG, "x": 5, "y": 6})


def _string(operator: Operator, text: str) -> Constraint:
    return Constraint("s", Type.STRING, operator, text)


def _lengths() -> list[Filter]:
    """Substrings of as many lengths, none of them in the message."""
    return [Filter((_string(Operator.SUBSTRING, "a" * n + "b"),)) for n in range(1, 1_500)]


def _verified() -> list[Filter]:
    """Filters that begin with what the message has, and go on with what it has not."""
    return [
        Filter((_string(Operator.PREFIX, "a" * 9), _string(Operator.SUBSTRING, "a" * 8 + f"b{n:05}")))
        for n in range(5_000)
    ]


_BOMBS = {"many lengths": _lengths, "verified in vain": _verified}


def _filled(filters: list[Filter], bounded: bool) -> Matcher:
    matcher = factory()
    if bounded:
        matcher.bound()
    matcher.change(1, (), filters)
    matcher.change(2, (), [Filter((Constraint("x", Type.INTEGER, Operator.EQ, 5),))])
    matcher.change(3, (), [Filter((_string(Operator.PREFIX, "z"),))])
    return matcher


@pytest.mark.parametrize("bomb", _BOMBS.values(), ids=_BOMBS)
def test_what_a_search_does_not_decide_in_time_counts_as_matching(bomb: Callable[[], list[Filter]]) -> None:
    bounded, exact = (_filled(bomb(), each) for each in (True, False))
    assert exact.match(_MESSAGE, among=(1, 2)) == {2}
    assert bounded.match(_MESSAGE, among=(1, 2)) == {1, 2}
    # An interface that was not asked about is not in the answer, and the next search has all its steps.
    assert bounded.match(_MESSAGE, among=(1,)) == {1}
    short = Message({"s": "aaab", "t": "z"})
    assert bounded.match(short) == exact.match(short)
    assert bounded.match(Message({"t": "z"})) == frozenset()


def test_a_routing_table_bounds_its_engine() -> None:
    content = Plain()
    routing = RoutingTable(factory(), content)
    routing.widen(1, content.predicate(_verified()))
    routing.widen(2, content.predicate([Filter((_string(Operator.PREFIX, "z"),))]))
    assert 1 in routing.match(_MESSAGE, {1, 2})
    assert routing.match(Message({"s": "b"}), {1, 2}) == frozenset()
