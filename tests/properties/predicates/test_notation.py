"""The printed form of a value parses to an equal value."""

import json

from hypothesis import given, settings, strategies as st

from router.predicates import INTEGER_MAX, INTEGER_MIN, Message, Predicate, Type, Value, matches
from router.predicates.covering.widening import total_weight, weight_of, widen
from router.predicates.parser import ParseError, parse_message, parse_predicate
from router.predicates.printer import format_message, format_predicate, predicate_from_json, predicate_to_json
from router.protocol.bounds import Allowances
from tests.support.predicate_worlds import MIXED, MIXED_WORLD, constraints_of, predicates, predicates_of

TEXT = st.text(max_size=12) | st.sampled_from(
    ["and", "any", "none", "true", "a-1", "-1", ".x", "é", '"', "\\", "//"]
)
NAMES = TEXT.filter(bool)
VALUES: dict[Type, st.SearchStrategy[Value]] = {
    Type.STRING: TEXT,
    Type.INTEGER: st.integers(INTEGER_MIN, INTEGER_MAX),
    Type.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    Type.BOOLEAN: st.booleans(),
}
PREDICATES = predicates_of(constraints_of(NAMES, VALUES))
MESSAGES = st.dictionaries(NAMES, st.one_of(*VALUES.values()), max_size=5).map(Message)


@given(PREDICATES)
def test_predicates_survive_printing(predicate: Predicate) -> None:
    text = format_predicate(predicate)
    assert len(text.splitlines()) == 1
    # repr, because 0.0 == -0.0.
    assert repr(parse_predicate(text)) == repr(predicate)


@given(MESSAGES)
def test_messages_survive_printing(message: Message) -> None:
    # repr, because 1 == 1.0 == True.
    assert repr(parse_message(format_message(message))) == repr(message)


@given(PREDICATES)
def test_predicates_survive_json(predicate: Predicate) -> None:
    data = json.loads(json.dumps(predicate_to_json(predicate)))
    assert repr(predicate_from_json(data)) == repr(predicate)


@given(st.text(alphabet='ab"\\x0 =<>*!&|,;[]()-.1e9/\n', max_size=30))
def test_any_text_is_parsed_or_refused_with_a_position_inside_it(text: str) -> None:
    for parse in (parse_predicate, parse_message):
        try:
            parse(text)
        except ParseError as error:
            lines = text.split("\n")
            assert 1 <= error.line <= len(lines)
            assert 1 <= error.column <= len(lines[error.line - 1]) + 1


# Widening under bounds never loses a message, and leaves alone what is within the bounds.


_WEIGHTS = st.integers(0, 100)
_MANY = st.lists(predicates("xy", MIXED), max_size=6).map(
    lambda parts: Predicate(tuple(filter_ for part in parts for filter_ in part))
)


@given(_MANY, st.integers(1, 100), _WEIGHTS, st.integers(1, 8))
@settings(max_examples=300)
def test_a_widened_predicate_matches_all_that_the_original_does(
    predicate: Predicate, filter_weight: int, weight: int, most: int
) -> None:
    wide = Predicate(tuple(widen(predicate, filter_weight, weight, most)[0]))
    for message in MIXED_WORLD:
        assert matches(wide, message) or not matches(predicate, message)


@given(_MANY, st.integers(1, 100), _WEIGHTS)
@settings(max_examples=300)
def test_what_is_within_the_bounds_is_unchanged(
    predicate: Predicate, filter_weight: int, weight: int
) -> None:
    weights = [weight_of(filter_) for filter_ in predicate]
    within = max(weights, default=0) <= filter_weight and sum(weights) <= weight
    read, total, widened = widen(predicate, filter_weight, weight, 100)
    assert widened is not within
    assert total <= weight
    if within:
        assert (tuple(read), total) == (predicate.filters, sum(weights))
    assert total_weight(predicate) == sum(weights)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 60), st.floats(0, 2)), max_size=200))
def test_allowances_that_are_forgotten_were_full(uses: list[tuple[int, int, float]]) -> None:
    allowances, kept, now = Allowances(100, 50), dict[int, Allowances](), 0.0
    for sender, weight, pause in uses:
        now += pause
        # The allowance of one sender alone is never forgotten.
        alone = kept.setdefault(sender, Allowances(100, 50))
        assert allowances.left(sender, now) == alone.left(sender, now)
        for each in (allowances, alone):
            each.charge(sender, weight, now)
    assert len(allowances) <= len(kept)
