import pytest

from router.matching.counting import CountingMatcher, CountingOptions, parse_options
from router.matching.engines import ENGINES, Matcher, factory
from router.predicates.parser import parse_message, parse_predicate

#: The forwarding table of the SIGCOMM 2003 paper's example.
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


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('airline = "UA", fare = "T", price = 248, orig = "DEN", dest = "ATL", upgrade = false', {1, 2}),
        ('airline = "UA", upgrade = true', {2}),
        ('stock = "MSFT", price = 199', {3}),
        ('stock = "MSFT", price = 199.0', set()),
        ('stock = "DYS", price = 100, quantity = 1001', {1}),
        ("[]", set()),
    ],
)
def test_example_of_the_forwarding_paper(matcher: Matcher, message: str, expected: set[int]) -> None:
    assert fill(matcher).match(parse_message(message)) == expected


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(
        ValueError, match="unknown matching engine 'fast'; expected one of compiled, counting, naive"
    ):
        factory("fast")


def test_options_of_an_engine_are_parsed_or_refused() -> None:
    assert parse_options("rounds=3, bloom=off") == CountingOptions(rounds=3, bloom=False)
    assert isinstance(factory("counting:single=off,short_circuit=on"), CountingMatcher)
    for spec, said in (
        ("counting:speed=9", "unknown option 'speed' of the counting engine; expected rounds, bloom"),
        ("counting:bloom=7", "option bloom: expected on or off, found '7'"),
        ("counting:rounds=-1", "option rounds: expected a number of rounds, found '-1'"),
        ("naive:rounds=1", "the engine naive has no options"),
    ):
        with pytest.raises(ValueError, match=said):
            factory(spec)


def test_the_counting_engine_keeps_nothing_of_removed_interfaces() -> None:
    counting = CountingMatcher(CountingOptions(rounds=10))
    fill(counting)
    assert counting.match(parse_message("price = 1")) == frozenset()
    for interface in TABLE:
        counting.remove(interface)
    assert not counting._indexes, "the index keeps nothing of removed interfaces"
