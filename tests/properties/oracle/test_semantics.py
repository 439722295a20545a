"""The oracle and the router's definition of matching, written independently, agree."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates import Message, Predicate, Type, Value, matches
from router.predicates.printer import predicate_to_json
from testbed.experiments.workload.constraints import PredicateIndex
from tests.support.predicate_worlds import constraints_of, predicates_of

# Few names and values, so that constraints and attributes meet; among the strings some whose order differs
# between UTF-8 bytes and UTF-16 units.
NAMES = st.sampled_from(["a", "b", "ä"])
VALUES: dict[Type, st.SearchStrategy[Value]] = {
    Type.STRING: st.sampled_from(["", "a", "ab", "ba", "aba", "b", "～", "\U0001f600", "é"])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    Type.INTEGER: st.integers(-2, 2) | st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1]),
    Type.DOUBLE: st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1.0, float(2**53), 1e300]),
    Type.BOOLEAN: st.booleans(),
}
PREDICATES = predicates_of(constraints_of(NAMES, VALUES), 3, 3)
MESSAGES = st.dictionaries(NAMES, st.one_of(*VALUES.values()), max_size=3).map(Message)


@settings(max_examples=1000)
@given(PREDICATES, MESSAGES)
def test_the_oracle_selects_what_the_definition_matches(predicate: Predicate, message: Message) -> None:
    # Through JSON, as in the log.
    filters = json.loads(json.dumps(predicate_to_json(predicate)))
    attributes = json.loads(json.dumps(message))
    assert bool(PredicateIndex([filters]).matching(attributes)) == matches(predicate, message)


@settings(max_examples=300)
@given(st.lists(PREDICATES, max_size=8), MESSAGES)
def test_an_index_of_many_predicates_answers_as_each_alone(
    predicates: list[Predicate], message: Message
) -> None:
    index = PredicateIndex(predicate_to_json(predicate) for predicate in predicates)
    expected = {number for number, predicate in enumerate(predicates) if matches(predicate, message)}
    assert index.matching(message) == expected
