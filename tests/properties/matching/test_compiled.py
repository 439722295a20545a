"""The compiled engine: bodies, long messages, memory; tables survive the way into columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from router.matching.columns import to_predicates
from router.matching.compiled.engine import CompiledMatcher, warm
from router.matching.engines import NaiveMatcher
from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type, Value
from router.predicates.parser import parse_message, parse_predicate
from router.wire.header import DecodeError
from router.wire.message import decode_message, encode_message
from tests.support.costs import memory_of
from tests.support.matching_variants import to_columns
from tests.support.predicate_worlds import HOSTILE_MESSAGES, MIXED, predicates


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    warm()


def test_filters_are_distinguished_by_their_present_constraints() -> None:
    """A filter that is replaced before a message asks must not be taken for another with its identity."""
    compiled = CompiledMatcher()
    for number in range(200):
        compiled.set_predicate(1, Predicate((Filter((Constraint("x", Type.INTEGER, Operator.EQ, number),)),)))
    assert compiled.match(Message({"x": 199})) == {1}
    assert compiled.match(Message({"x": 198})) == frozenset()
    assert len(compiled._segments) == 1


def test_what_came_without_objects_cannot_change_by_one() -> None:
    compiled, predicate = CompiledMatcher(), parse_predicate("x = 1")
    compiled.load(to_columns({1: predicate}))
    with pytest.raises(ValueError, match="interface 1: its filters are not known one by one"):
        compiled.change(1, predicate, ())
    compiled.change(2, (), predicate)
    assert compiled.match(Message({"x": 1})) == {1, 2}
    compiled.change(2, predicate, ())
    assert compiled.match(Message({"x": 1})) == {1}


@st.composite
def _bodies(draw: st.DrawFn) -> bytes:
    """Bodies of messages with some bytes overwritten, cut off or put in."""
    body = bytearray(encode_message(draw(HOSTILE_MESSAGES)))[:300]
    for _ in range(draw(st.integers(0, 3))):
        if body:
            at = draw(st.integers(0, len(body) - 1))
            body[at] = draw(st.integers(0, 255))
    at = draw(st.integers(0, len(body)))
    return bytes(body[:at] if draw(st.booleans()) else body[:at] + draw(st.binary(max_size=3)) + body[at:])


@given(_bodies() | st.binary(max_size=40))
@settings(max_examples=500)
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
    compiled = CompiledMatcher()
    _, taken, _ = memory_of(lambda: compiled.load(table))
    assert compiled.match(Message({"x": 7})) == {1007}
    assert 0.7 * taken < compiled.nbytes < 1.4 * taken


@given(st.dictionaries(st.integers(0, 5), predicates("xy", MIXED), max_size=4))
def test_columns_hold_a_table_as_it_is(table: dict[int, Predicate]) -> None:
    columns = to_columns(table)
    assert to_predicates(columns) == {i: predicate for i, predicate in table.items() if predicate}
    assert columns.filters == sum(map(len, table.values()))
    assert columns.constraints == sum(len(filter_) for predicate in table.values() for filter_ in predicate)
    assert (np.diff(columns.interface) >= 0).all()
