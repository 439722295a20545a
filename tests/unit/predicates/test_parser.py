import pytest

from router.predicates import EVERYTHING, NOTHING, Constraint, Filter, Message, Operator, Predicate, Type
from router.predicates.parser import Most, ParseError, parse_message, parse_predicate
from router.predicates.printer import format_message, format_predicate, predicate_from_json, predicate_to_json
from tests.support.cases import cases_beside
from tests.support.protocol_network import integer

_CASES = cases_beside(__file__)


def string(name: str, operator: Operator, value: str) -> Constraint:
    return Constraint(name, Type.STRING, operator, value)


DEST = string("dest", Operator.EQ, "ORD")
PRICE = integer("price", Operator.LT, 400)
ALERT = string("class", Operator.EQ, "alert")
PAPER = Predicate((Filter((DEST, PRICE)), Filter((ALERT,))))


@pytest.mark.parametrize("conjunction", ["and", "&&", "&", ",", "/\\", "∧"])
@pytest.mark.parametrize("disjunction", ["or", "||", "|", "\\/", "∨"])
def test_and_binds_tighter_than_or_in_every_spelling(conjunction: str, disjunction: str) -> None:
    text = f'dest = "ORD" {conjunction} price < 400 {disjunction} class = "alert"'
    assert parse_predicate(text) == PAPER
    assert parse_predicate(f'class="alert"{disjunction} dest="ORD"{conjunction} price<400') == Predicate(
        (PAPER.filters[1], PAPER.filters[0])
    )


@pytest.mark.parametrize(("text", "name", "kind", "operator", "value"), _CASES["constraints"])
def test_single_constraints(text: str, name: str, kind: str, operator: str, value: str | float) -> None:
    constraint = Constraint(name, Type[kind], Operator[operator], None if operator == "ANY" else value)
    assert parse_predicate(text) == Predicate((Filter((constraint,)),))


def test_the_two_extreme_predicates_have_names() -> None:
    assert parse_predicate("*") == EVERYTHING
    assert parse_predicate(" none ") == NOTHING
    assert format_predicate(EVERYTHING) == "*"
    assert format_predicate(NOTHING) == "none"
    assert parse_predicate("* or price < 400") == Predicate((Filter(), Filter((PRICE,))))


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [*_CASES["errors"], ("a = " + "9" * 5000, 1, 5, "does not fit in 64 bits")],
)
def test_errors_say_where_and_what_was_expected(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_predicate(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"line {line}, column {column}: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        'carrier = "UA", price = 300, upgradeable = true, tax = 1.5',
        'carrier="UA" price=300 upgradeable=true tax=1.5',
        '[carrier = "UA"; price = 300; upgradeable = true; tax = 1.5;]',
    ],
)
def test_messages(text: str) -> None:
    message = parse_message(text)
    assert message == Message({"carrier": "UA", "price": 300, "upgradeable": True, "tax": 1.5})
    assert [type(value) for value in message.values()] == [str, int, bool, float]
    assert format_message(message) == 'carrier = "UA", price = 300, upgradeable = true, tax = 1.5'


def test_the_empty_message() -> None:
    assert parse_message("") == parse_message("[]") == Message({})
    assert format_message(Message({})) == "[]"


@pytest.mark.parametrize(("text", "reason"), _CASES["message_errors"])
def test_message_errors(text: str, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_message(text)
    assert reason in str(caught.value)


def test_json_form() -> None:
    predicate = parse_predicate('dest =* "O" and price any integer or fare <= 2.0 or ok = true')
    data = predicate_to_json(predicate)
    assert data == [
        [["dest", "string", "=*", "O"], ["price", "integer", "any", None]],
        [["fare", "double", "<=", 2.0]],
        [["ok", "boolean", "=", True]],
    ]
    assert predicate_from_json(data) == predicate
    assert predicate_from_json([[["fare", "double", "=", 2]]]) == parse_predicate("fare = 2.0")


@pytest.mark.parametrize(
    ("data", "reason"),
    [*_CASES["json_errors"], ([[["a", "integer", "=", None]]], "operator = needs a value")],
)
def test_json_errors(data: object, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        predicate_from_json(data)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("a = 1 | " * 4 + "a }", "predicate_filters"),
        ("a = 1, b = 2, c = 3, d }", "filter_weight"),
        ("a = 1, b = 2 | " * 3 + "}", "predicate_weight"),
    ],
)
def test_a_predicate_is_read_as_far_as_its_bounds(text: str, option: str) -> None:
    most = Most(filters=4, filter_weight=4, weight=8)
    assert parse_predicate("a = 1 | b = 2 | c = 3 | *", most) == parse_predicate("a = 1 | b = 2 | c = 3 | *")
    assert len(parse_predicate("a = 1, b = 2, c = 3 | d = 4", most)) == 2
    with pytest.raises(ParseError, match=rf"more than .* \(\[protocol\] {option}\)"):
        parse_predicate(text, most)
