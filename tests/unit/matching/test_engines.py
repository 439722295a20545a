from collections.abc import Callable

import pytest

from router.content import Plain
from router.matching.counting import CountingMatcher, CountingOptions
from router.matching.engines import ENGINES, Matcher, factory
from router.predicates import Constraint, Filter, Message, Operator, Type
from router.predicates.parser import parse_message, parse_predicate
from router.protocol.routing import RoutingTable

#: The forwarding table of the SIGCOMM 2003 paper's example; unit/siena_ff/test_match.py has its answers.
TABLE = {
    1: 'dest = "ATL" and price < 500 or stock = "DYS" and quantity > 1000 and price < 500',
    2: 'airline = "UA" and orig = "DEN" and dest = "ATL" or dest = "JFK" and price < 200'
    ' or orig = "DEN" or airline = "UA" and upgrade = true',
    3: 'stock = "MSFT" and price < 200',
}


@pytest.fixture(params=sorted(ENGINES))
def matcher(request: pytest.FixtureRequest) -> Matcher:
    return factory(request.param)


def fill(matcher: Matcher) -> Matcher:
    for interface, text in TABLE.items():
        matcher.set_predicate(interface, parse_predicate(text))
    return matcher


def test_answers_do_not_depend_on_how_many_searches_came_before(matcher: Matcher) -> None:
    """The compiled engine counts searches in a byte."""
    fill(matcher)
    messages = [parse_message('airline = "UA", upgrade = true'), parse_message('stock = "MSFT", price = 199')]
    assert [matcher.match(message) for _ in range(300) for message in messages] == [{2}, {3}] * 300


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(
        ValueError, match="unknown matching engine 'fast'; expected one of compiled, counting, naive"
    ):
        factory("fast")


def test_the_counting_engine_keeps_nothing_of_removed_interfaces() -> None:
    counting = CountingMatcher(CountingOptions(rounds=10))
    fill(counting)
    assert counting.match(parse_message("price = 1")) == frozenset()
    for interface in TABLE:
        counting.remove(interface)
    assert not counting._indexes, "the index keeps nothing of removed interfaces"


# Searches that would take longer than a turn of a router: what is not decided in time counts as matching.


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
