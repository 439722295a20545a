"""The driver's notation: what is written is read, in pieces of any size; other text is refused."""

from hypothesis import given, strategies as st

from router.predicates import SYMBOLS, Constraint, Message, Predicate
from testbed.experiments.siena_ff import DriverParser, driver_name, driver_value
from testbed.experiments.siena_ff.reader import Reader
from testbed.support.errors import InputError
from tests.support.predicate_worlds import MIXED, predicates

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
VALUES = st.one_of(TEXT, INTEGERS, st.floats(allow_nan=False, allow_infinity=False), st.booleans())
NAMES = st.one_of(st.sampled_from(["a", "any", "and", "select", "x-y.z"]), TEXT.filter(bool))
BLANKS = st.sampled_from(["", " ", "\n\t", ' /* ; " */ ', "// ; |\n"])
AND = st.sampled_from([",", "&", "&&", "/\\"])
OR = st.sampled_from(["|", "||", "\\/"])


def written(draw: st.DrawFn, predicate: Predicate) -> str:
    def constraint(c: Constraint) -> str:
        name = driver_name(c.name) + draw(BLANKS)
        if c.value is None:
            return f"{name} any {c.type.name.lower()}"
        return f"{name}{SYMBOLS[c.operator]}{draw(BLANKS)}{driver_value(c.value)}{draw(BLANKS)}"

    def joined(parts: list[str], separators: st.SearchStrategy[str]) -> str:
        text = parts[0]
        for part in parts[1:]:
            text += draw(BLANKS) + draw(separators) + draw(BLANKS) + part
        return text

    return joined([joined([constraint(c) for c in f], AND) if len(f) else "*" for f in predicate], OR)


@st.composite
def statements(draw: st.DrawFn) -> tuple[int, Predicate, str]:
    predicate = draw(predicates("xyz", MIXED).filter(bool))
    interface = draw(st.integers(0, 2**31 - 1))
    return interface, predicate, f"{draw(BLANKS)}ifconfig {interface} {written(draw, predicate)};"


@given(statements(), st.integers(1, 30))
def test_a_written_predicate_is_read(statement: tuple[int, Predicate, str], size: int) -> None:
    interface, predicate, text = statement
    chunks = [text[i : i + size] for i in range(0, len(text), size)]
    (found,) = Reader(chunks, "test").statements()
    assert (found.keyword, found.interface, found.filters) == ("ifconfig", interface, predicate.filters)
    assert (
        DriverParser(text[text.index(str(interface)) + len(str(interface)) :], 0, 1, 1).predicate()
        == predicate
    )


@given(st.dictionaries(NAMES, VALUES, max_size=5), st.sampled_from([" ", ", ", "\n"]))
def test_a_written_message_is_read(attributes: dict[str, str | int | float | bool], separator: str) -> None:
    text = separator.join(f"{driver_name(name)} = {driver_value(v)}" for name, v in attributes.items())
    (statement,) = Reader([f"select {text};"], "test").statements()
    assert statement.message == Message(attributes)
    assert [type(v) for v in statement.message.values()] == [type(v) for v in attributes.values()]


PIECES = [
    *("ifconfig", "select", "1", "a", '"', "\\", "=", "=*", ",", "|", ";", "/", "*", "any", "string", "0x"),
    *("#", "\n"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    def outcome(chunks: list[str]) -> object:
        try:
            return list(Reader(chunks, "test").statements())
        except InputError as error:
            return str(error)

    assert outcome([text]) == outcome(list(text))
