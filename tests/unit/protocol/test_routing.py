"""The routing table: the updates of its matcher, and over-simplification of its entries."""

from __future__ import annotations

from random import Random

import pytest

from router.content import Plain
from router.matching.counting import CountingMatcher
from router.matching.engines import ENGINES, factory
from router.predicates import NOTHING, Constraint, Filter, Message, Operator, Predicate, Type
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.covering.pool import POOL
from router.predicates.parser import parse_predicate
from router.protocol.options import RouterOptions
from router.protocol.routing import RoutingTable
from router.protocol.services.exhaustive import ApplicationPredicates
from router.wire.header import LOCAL_INTERFACE
from tests.support.algebra import covers, disjoin

CONTENT = Plain()


def test_a_copy_grows_apart_from_its_entry() -> None:
    routing = RoutingTable(CountingMatcher(), CONTENT)
    routing.widen(1, parse_predicate("x > 5"))
    routing.copy_of(1).add(parse_predicate("y = 1"))
    assert routing.get(1) == parse_predicate("x > 5")
    assert routing.copy_of(2).predicate == NOTHING


def test_what_grows_beyond_twice_the_bound_is_widened_to_it() -> None:
    routing = RoutingTable(CountingMatcher(), CONTENT, max_filters=3)
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


def _points(start: int, end: int) -> Predicate:
    return Predicate(
        tuple(Filter((Constraint("x", Type.INTEGER, Operator.EQ, n * n),)) for n in range(start, end))
    )


def test_a_large_entry_is_widened_at_once() -> None:
    routing = RoutingTable(None, CONTENT, max_filters=10)
    exact = PredicateBuilder(_points(2, 1_000)).predicate
    routing.widen(1, exact)
    assert len(routing.get(1)) <= 10
    assert covers(routing.get(1), exact)
    assert not routing.match(Message({"x": -1}), {1})
    routing.replace(1, PredicateBuilder(_points(200, 300)))
    assert len(routing.get(1)) == 10
    assert not routing.match(Message({"x": 4}), {1})


def test_what_this_node_asks_of_others_stays_exact() -> None:
    routing = RoutingTable(CountingMatcher(), CONTENT, max_filters=1)
    wanted = parse_predicate("x = 1 or x = 10 or x = 100 or x = 1000")
    ApplicationPredicates(routing, CONTENT, RouterOptions()).set(1, wanted)
    assert routing.local == wanted
    assert routing.match(Message({"x": 5}), {LOCAL_INTERFACE}) == frozenset()


@pytest.mark.parametrize("max_filters", [None, 6])
def test_every_engine_follows_the_table(max_filters: int | None) -> None:
    """Entries grow, are replaced and forgotten; numbers of filters that nobody holds are given again."""
    source = Random(4)
    tables = [RoutingTable(factory(name), CONTENT, max_filters) for name in sorted(ENGINES)]
    tables.append(RoutingTable(None, CONTENT, max_filters))
    matched = 0
    for _ in range(100):
        interface, drawn = source.randrange(4), source.random()
        predicate = parse_predicate(
            f'x > {source.randrange(30)} and s =* "{source.choice("abc")}" or y = {drawn}'
        )
        kept = set(source.sample(range(4), 3))
        for table in tables:
            if drawn < 0.1:
                table.keep_only(kept)
            elif drawn < 0.25:
                table.replace(interface, PredicateBuilder(predicate))
            else:
                table.widen(interface, predicate)
        if source.random() < 0.2:
            POOL.sweep()
        among = set(source.sample(range(4), source.choice([1, 2, 4])))
        for message in (
            Message({"x": source.randrange(30), "s": source.choice(["a", "bc", "d"])}),
            Message({"y": drawn}),
        ):
            answers = {table.match(message, among) for table in tables}
            assert len(answers) == 1
            matched += len(answers.pop())
    assert matched > 60
