"""The oracle and the router's definition of matching, written independently, agree."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates.model import (
    STRING_ONLY,
    Constraint,
    Filter,
    Message,
    Operator,
    Predicate,
    Type,
    Value,
    matches,
    type_of,
)
from router.predicates.printer import predicate_to_json
from testbed.experiments.workload.constraints import PredicateIndex, selects

# Few names and values, so that constraints and attributes meet; among the strings some whose order differs
# between UTF-8 bytes and UTF-16 units.
NAMES = st.sampled_from(["a", "b", "ä"])
VALUES: st.SearchStrategy[Value] = st.one_of(
    st.sampled_from(["", "a", "ab", "ba", "aba", "b", "～", "\U0001f600", "é"]),
    st.integers(-2, 2),
    st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1]),
    st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1.0, float(2**53), 1e300]),
    st.booleans(),
    st.text(max_size=3).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)),
)


@st.composite
def constraints(draw: st.DrawFn) -> Constraint:
    name, value = draw(NAMES), draw(VALUES)
    kind = type_of(value)
    operator = draw(st.sampled_from([o for o in Operator if kind is Type.STRING or o not in STRING_ONLY]))
    return Constraint(name, kind, operator, None if operator is Operator.ANY else value)


PREDICATES = st.builds(
    lambda filters: Predicate(tuple(Filter(tuple(filter_)) for filter_ in filters)),
    st.lists(st.lists(constraints(), max_size=3), max_size=3),
)
MESSAGES = st.dictionaries(NAMES, VALUES, max_size=3).map(Message)


@settings(max_examples=1000)
@given(PREDICATES, MESSAGES)
def test_the_oracle_selects_what_the_definition_matches(predicate: Predicate, message: Message) -> None:
    # Through JSON, as in the log.
    filters = json.loads(json.dumps(predicate_to_json(predicate)))
    attributes = json.loads(json.dumps(message))
    assert selects(filters, attributes) == matches(predicate, message)


@settings(max_examples=300)
@given(st.lists(PREDICATES, max_size=8), MESSAGES)
def test_an_index_of_many_predicates_answers_as_each_alone(
    predicates: list[Predicate], message: Message
) -> None:
    index = PredicateIndex(predicate_to_json(predicate) for predicate in predicates)
    expected = {number for number, predicate in enumerate(predicates) if matches(predicate, message)}
    assert index.matching(message) == expected
