"""The printed form of a value parses to an equal value."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates import INTEGER_MAX, INTEGER_MIN, Message, Predicate, Type, Value
from router.predicates.parser import ParseError, parse_message, parse_predicate
from router.predicates.printer import format_message, format_predicate, predicate_from_json, predicate_to_json
from tests.support.predicate_worlds import constraints_of, predicates_of

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
@settings(deadline=None)
def test_predicates_survive_printing(predicate: Predicate) -> None:
    text = format_predicate(predicate)
    assert len(text.splitlines()) == 1
    # repr, because 0.0 == -0.0.
    assert repr(parse_predicate(text)) == repr(predicate)


@given(MESSAGES)
@settings(deadline=None)
def test_messages_survive_printing(message: Message) -> None:
    # repr, because 1 == 1.0 == True.
    assert repr(parse_message(format_message(message))) == repr(message)


@given(PREDICATES)
@settings(deadline=None)
def test_predicates_survive_json(predicate: Predicate) -> None:
    data = json.loads(json.dumps(predicate_to_json(predicate)))
    assert repr(predicate_from_json(data)) == repr(predicate)


@given(st.text(alphabet='ab"\\x0 =<>*!&|,;[]()-.1e9/\n', max_size=30))
@settings(deadline=None)
def test_any_text_is_parsed_or_refused_with_a_position_inside_it(text: str) -> None:
    for parse in (parse_predicate, parse_message):
        try:
            parse(text)
        except ParseError as error:
            lines = text.split("\n")
            assert 1 <= error.line <= len(lines)
            assert 1 <= error.column <= len(lines[error.line - 1]) + 1
