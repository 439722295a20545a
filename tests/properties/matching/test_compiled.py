"""The compiled engine gives the answers of the naive one; tables survive the way into columns."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.matching.columns import ColumnsBuilder, ConstraintColumns, to_predicates
from router.matching.compiled.engine import CompiledMatcher, warm
from router.matching.engines import NaiveMatcher
from router.predicates import (
    EVERYTHING,
    INTEGER_MAX,
    INTEGER_MIN,
    STRING_ONLY,
    Constraint,
    Filter,
    Message,
    Operator,
    Predicate,
    Type,
    Value,
)
from router.predicates.parser import parse_message, parse_predicate
from router.wire.header import DecodeError
from router.wire.message import decode_message, encode_message
from tests.support.predicate_worlds import MIXED, constraints_of, predicates

_LONG = "ab" * 20_000
VALUES: dict[Type, list[Value]] = {
    Type.STRING: [
        *[
            "",
            "a",
            "b",
            "ab",
            "ba",
            "aa",
            "aba",
            "abab",
            "a\0",
            "\0",
            "\0a",
            "é",
            "aé",
            "\U0001f600",
            "\u07ff",
        ],
        *["abcdefgh", "abcdefg", "abcdefghi", "abcdefgh\0", "abcdefghij", "zabcdefgh", _LONG, _LONG + "c"],
    ],
    Type.INTEGER: [INTEGER_MIN, INTEGER_MIN + 1, -1, 0, 1, 2, INTEGER_MAX - 1, INTEGER_MAX],
    Type.DOUBLE: [-1.7e308, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.5, 1.7e308],
    Type.BOOLEAN: [False, True],
}
_NAMES = ["x", "y", "z", "é" * 100]


def to_columns(table: Mapping[int, Predicate]) -> ConstraintColumns:
    """The predicates of a table, by interface, as columns."""
    builder = ColumnsBuilder()
    for interface in sorted(table):
        for filter_ in table[interface]:
            builder.add(interface, filter_)
    return builder.build()


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    warm()


_DRAWN = {kind: st.sampled_from(values) for kind, values in VALUES.items()}
_FILTERS = st.lists(constraints_of(st.sampled_from(_NAMES), _DRAWN), max_size=4).map(
    lambda found: Filter(tuple(found))
)
_PREDICATES = st.lists(_FILTERS, max_size=6).map(lambda found: Predicate(tuple(found)))
_MESSAGES = st.dictionaries(
    st.sampled_from([*_NAMES, "w"]), st.sampled_from([v for kind in MIXED for v in VALUES[kind]])
).map(Message)
_INTERFACES = st.integers(-2, 8)


@given(
    st.dictionaries(_INTERFACES, _PREDICATES, max_size=6),
    st.lists(_MESSAGES, min_size=1, max_size=8),
    st.booleans(),
    st.none() | st.sets(_INTERFACES),
)
@settings(max_examples=150, deadline=None)
def test_a_table_of_hostile_values(
    table: dict[int, Predicate], messages: list[Message], loaded: bool, among: set[int] | None
) -> None:
    compiled, naive = CompiledMatcher(), NaiveMatcher()
    if loaded:
        compiled.load(to_columns(table))
    for interface, predicate in table.items():
        naive.set_predicate(interface, predicate)
        if not loaded:
            compiled.set_predicate(interface, predicate)
    for message in messages:
        expected = naive.match(message, among)
        assert compiled.match(message, among) == expected
        assert compiled.match_encoded(encode_message(message), among) == expected


def _random_filter(source: random.Random) -> Filter:
    constraints = []
    for _ in range(source.randint(1, 3) if source.random() < 0.97 else 0):
        kind = source.choice(MIXED)
        operator = source.choice([o for o in Operator if kind is Type.STRING or o not in STRING_ONLY])
        value = None if operator is Operator.ANY else source.choice(VALUES[kind])
        constraints.append(Constraint(source.choice("xyz"), kind, operator, value))
    return Filter(tuple(constraints))


def _random_messages(source: random.Random) -> Iterator[Message]:
    values = [value for kind in MIXED for value in VALUES[kind]]
    for _ in range(3):
        yield Message({name: source.choice(values) for name in source.sample("xyzw", source.randint(0, 4))})


def test_histories() -> None:
    """Interfaces that grow, lose filters, come and go."""
    matched = 0
    for round_ in range(12):
        source = random.Random(round_)
        compiled, naive = CompiledMatcher(), NaiveMatcher()
        held: dict[int, list[Filter]] = {}
        if round_ % 2:
            table = {i: Predicate(tuple(_random_filter(source) for _ in range(5))) for i in range(30)}
            compiled.load(to_columns(table))
            for interface, predicate in table.items():
                naive.set_predicate(interface, predicate)
        for _ in range(150):
            interface = source.randrange(30)
            if source.random() < 0.1:
                held.pop(interface, None)
                compiled.remove(interface)
                naive.remove(interface)
            else:
                kept = [filter_ for filter_ in held.get(interface, []) if source.random() < 0.9]
                held[interface] = kept + [_random_filter(source) for _ in range(source.randint(0, 3))]
                predicate = Predicate(tuple(held[interface]))
                compiled.set_predicate(interface, predicate)
                naive.set_predicate(interface, predicate)
            if source.random() < 0.5:
                for message in _random_messages(source):
                    among = (
                        None if source.random() < 0.4 else source.sample(range(33), source.choice([0, 1, 15]))
                    )
                    answer = compiled.match(message, among)
                    assert answer == naive.match(message, among)
                    matched += len(answer)
        assert compiled.segments <= 8
    assert matched > 3000


def test_filters_are_told_apart_by_what_they_are_now() -> None:
    """A filter that is replaced before a message asks must not be taken for another with its identity."""
    compiled = CompiledMatcher()
    for number in range(200):
        compiled.set_predicate(1, Predicate((Filter((Constraint("x", Type.INTEGER, Operator.EQ, number),)),)))
    assert compiled.match(Message({"x": 199})) == {1}
    assert compiled.match(Message({"x": 198})) == frozenset()
    assert compiled.segments == 1


def test_what_came_without_objects_cannot_change_by_one() -> None:
    compiled = CompiledMatcher()
    predicate = parse_predicate("x = 1")
    compiled.load(to_columns({1: predicate}))
    with pytest.raises(ValueError, match="interface 1: its filters are not known one by one"):
        compiled.change(1, predicate, ())
    compiled.change(2, (), predicate)
    assert compiled.match(Message({"x": 1})) == {1, 2}
    compiled.change(2, predicate, ())
    assert compiled.match(Message({"x": 1})) == {1}


def _bodies() -> st.SearchStrategy[bytes]:
    """Bodies of messages with some bytes overwritten, cut off or put in."""

    @st.composite
    def build(draw: st.DrawFn) -> bytes:
        body = bytearray(encode_message(draw(_MESSAGES)))[:300]
        for _ in range(draw(st.integers(0, 3))):
            if body:
                at = draw(st.integers(0, len(body) - 1))
                body[at] = draw(st.integers(0, 255))
        at = draw(st.integers(0, len(body)))
        return bytes(
            body[:at] if draw(st.booleans()) else body[:at] + draw(st.binary(max_size=3)) + body[at:]
        )

    return build()


@given(_bodies() | st.binary(max_size=40))
@settings(max_examples=500, deadline=None)
def test_a_body_is_read_as_the_codec_reads_it_or_left_to_it(body: bytes) -> None:
    compiled, naive = CompiledMatcher(), NaiveMatcher()
    for interface, text in enumerate(
        ["x any string", "x any integer", "y = 0", 'z *= "b"', "w != 0.0", "z = true"]
    ):
        compiled.set_predicate(interface, parse_predicate(text))
        naive.set_predicate(interface, parse_predicate(text))
    answer = compiled.match_encoded(body)
    try:
        message = decode_message(body)
    except DecodeError:
        assert answer is None
        return
    assert answer is None or answer == naive.match(message)
    assert compiled.match(message) == naive.match(message)


def test_many_attributes_and_long_strings() -> None:
    compiled = CompiledMatcher()
    compiled.set_predicate(1, parse_predicate('n3000 = 3000 and s ** "ba"'))
    attributes: dict[str, Value] = {f"n{number}": number for number in range(4000)}
    message = Message({**attributes, "s": "a" * 60_000 + "b" + "a" * 5_000})
    assert compiled.match_encoded(encode_message(message)) is None, "names are compared up to a number"
    assert compiled.match(message) == {1}
    assert compiled.match(parse_message('n3000 = 3000, s = "b"')) == frozenset()


def test_memory_is_counted_with_what_each_interface_costs() -> None:
    count = 20_000
    filters = [Predicate((Filter((Constraint("x", Type.INTEGER, Operator.EQ, n),)),)) for n in range(count)]
    table = to_columns(dict(enumerate(filters, start=1000)))
    tracemalloc.start()
    try:
        compiled = CompiledMatcher()
        compiled.load(table)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert compiled.match(Message({"x": 7})) == {1007}
    assert 0.7 * taken < compiled.nbytes < 1.4 * taken


@given(st.dictionaries(st.integers(0, 5), predicates("xy", MIXED), max_size=4))
def test_columns_hold_a_table_as_it_is(table: dict[int, Predicate]) -> None:
    columns = to_columns(table)
    assert to_predicates(columns) == {i: predicate for i, predicate in table.items() if predicate}
    assert columns.filters == sum(map(len, table.values()))
    assert columns.constraints == sum(len(filter_) for predicate in table.values() for filter_ in predicate)
    assert (np.diff(columns.interface) >= 0).all()


def test_filters_without_constraints_have_columns_too() -> None:
    columns = to_columns({2: EVERYTHING, 1: EVERYTHING})
    assert columns.start.tolist() == [0, 0, 0]
    assert to_predicates(columns) == {1: EVERYTHING, 2: EVERYTHING}


def test_interfaces_come_in_ascending_order() -> None:
    builder = ColumnsBuilder()
    builder.add(3, Filter())
    with pytest.raises(ValueError, match="interface 2 after 3; expected ascending order"):
        builder.add(2, Filter())
