"""The routing table: what its matcher hears, and over-simplification of what lies behind interfaces."""

from __future__ import annotations

import pytest

from router.matching.counting import CountingMatcher
from router.predicates.algebra import covers, disjoin
from router.predicates.builder import PredicateBuilder
from router.predicates.model import NOTHING, Message, Predicate
from router.predicates.parser import parse_predicate
from router.protocol.options import RouterOptions
from router.protocol.routing import RoutingTable
from router.wire.addresses import LOCAL_INTERFACE


class _Counted(CountingMatcher):
    """The real engine, and how often it was told something."""

    def __init__(self) -> None:
        super().__init__()
        self.told = 0

    def set_predicate(self, interface: int, predicate: Predicate) -> None:
        self.told += 1
        super().set_predicate(interface, predicate)


def test_the_matcher_hears_of_the_last_change_of_interfaces_that_are_asked_for() -> None:
    engine = _Counted()
    routing = RoutingTable(engine)
    for bound in range(10, 0, -1):
        assert routing.widen(1, parse_predicate(f"x > {bound}"))
        assert routing.widen(2, parse_predicate(f"x > {bound}"))
    assert engine.told == 0
    assert routing.match(Message({"x": 1}), {1}) == frozenset()
    assert routing.match(Message({"x": 2}), {1}) == {1}
    assert engine.told == 1
    assert routing.match(Message({"x": 2}), {1, 2}) == {1, 2}
    assert engine.told == 2


def test_the_matcher_forgets_interfaces_that_are_gone() -> None:
    routing = RoutingTable(CountingMatcher())
    routing.widen(1, parse_predicate("x > 0"))
    routing.widen(2, parse_predicate("x > 0"))
    assert routing.match(Message({"x": 1}), {1, 2}) == {1, 2}
    routing.keep_only({2})
    assert routing.match(Message({"x": 1}), {1, 2}) == {2}
    assert routing.get(1) == NOTHING
    routing.widen(1, parse_predicate("x > 5"))
    assert routing.match(Message({"x": 1}), {1, 2}) == {2}
    routing.replace(1, PredicateBuilder(parse_predicate("x < 5")))
    assert routing.match(Message({"x": 1}), {1, 2}) == {1, 2}


def test_a_copy_grows_apart_from_its_entry() -> None:
    routing = RoutingTable(CountingMatcher())
    routing.widen(1, parse_predicate("x > 5"))
    routing.copy_of(1).add(parse_predicate("y = 1"))
    assert routing.get(1) == parse_predicate("x > 5")
    assert routing.copy_of(2).predicate == NOTHING


def test_what_grows_beyond_twice_the_bound_is_widened_to_it() -> None:
    routing = RoutingTable(CountingMatcher(), max_filters=3)
    exact = NOTHING
    for number in range(40):
        one = parse_predicate(f"x = {number * number * 10} and y > {number}")
        exact = disjoin(exact, one)
        routing.widen(1, one)
        assert covers(routing.get(1), exact)
        assert len(routing.get(1)) <= 6
        if number < 6:
            assert routing.get(1) == exact
        assert routing.match(Message({"x": number * number * 10, "y": number + 1}), {1}) == {1}
    routing.replace(2, PredicateBuilder(exact))
    assert len(routing.get(2)) == 3
    assert covers(routing.get(2), exact)


def test_what_this_node_asks_of_others_stays_exact() -> None:
    routing = RoutingTable(CountingMatcher(), max_filters=1)
    wanted = parse_predicate("x = 1 or x = 10 or x = 100 or x = 1000")
    routing.set_application(1, wanted)
    assert routing.local == wanted
    assert routing.match(Message({"x": 5}), {LOCAL_INTERFACE}) == frozenset()


def test_bounds_that_a_router_refuses() -> None:
    with pytest.raises(ValueError, match="max_filters: 0 is less than 1"):
        RouterOptions(max_filters=0)
    with pytest.raises(ValueError, match="max_filters: excludes strict_paper"):
        RouterOptions(max_filters=5, strict_paper=True)
