"""The oracle's answers about times, against the definition applied to every pair in turn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from router.predicates import (
    STRING_ONLY,
    Constraint,
    Filter,
    Message,
    Operator,
    Predicate,
    Type,
    Value,
    matches,
)
from router.predicates.printer import predicate_to_json
from router.records.applications import MessageSent
from testbed.experiments.workload.constraints import PredicateIndex
from testbed.results.oracle.decide import judge
from testbed.results.oracle.history import Application, History, Setting
from tests.support.applications import message_sent
from tests.support.predicate_worlds import HOSTILE_VALUES, constraints_of, predicates_of

WINDOW_NS = 4
Span = tuple[int, int]


@st.composite
def timelines(draw: st.DrawFn) -> list[Setting]:
    """Settings that each select `a < bound`, or nothing; requests and confirmations in order, in 0..60 ns."""
    times = sorted(draw(st.lists(st.integers(0, 60), max_size=8, unique=True)))
    made = []
    for requested, confirmed in zip(times[::2], times[1::2], strict=False):
        bound = draw(st.none() | st.integers(0, 3))
        made.append(Setting(requested, confirmed, [] if bound is None else [[["a", "integer", "<", bound]]]))
    return made


@st.composite
def sendings(draw: st.DrawFn) -> MessageSent:
    at = draw(st.integers(0, 60))
    return message_sent(1, at, at + draw(st.integers(0, 3)), draw(st.integers(0, 3)))


def selected(setting: Setting, value: Any) -> bool:
    return any(value < constraint[3] for filter_ in setting.filters for constraint in filter_)


def by_definition(
    timeline: list[Setting], sending: MessageSent, changes: Sequence[Span], stop: Span | None
) -> tuple[bool, bool]:
    value = sending["attributes"]["a"]
    begin, end = sending["requested_ns"] - WINDOW_NS, sending["t_ns"] + WINDOW_NS
    if stop is not None and stop[0] <= end and stop[1] >= begin:
        # The message, and predicates, may have waited in the stopped router.
        begin, end = min(begin, stop[0] - WINDOW_NS), max(end, stop[1] + WINDOW_NS)
    confirmed = [s for s in timeline if s.confirmed_ns <= sending["requested_ns"]]
    expected = bool(confirmed) and selected(confirmed[-1], value)
    answers = set()
    for moment in range(begin, end + 1):
        before = [s for s in timeline if s.confirmed_ns <= moment]
        answers.add(bool(before) and selected(before[-1], value))
        under_way = [s for s in timeline if s.requested_ns <= moment < s.confirmed_ns]
        answers |= {selected(s, value) for s in under_way}
    changing = any(start <= end and stop >= begin for start, stop in changes)
    return expected, answers == {False} if changing else len(answers) == 1


@settings(max_examples=500)
@given(
    st.lists(timelines(), min_size=1, max_size=4),
    st.lists(sendings(), min_size=1, max_size=4),
    st.lists(st.integers(0, 60), max_size=4, unique=True),
    st.none() | st.tuples(st.integers(0, 30), st.integers(30, 60)),
)
def test_every_pair_is_judged_by_the_definition(
    drawn: list[list[Setting]], sent: list[MessageSent], change_times: list[int], stop: Span | None
) -> None:
    ordered = sorted(change_times)
    changes = list(zip(ordered[::2], ordered[1::2], strict=False))
    delays = [] if stop is None else [stop]
    applications = {Application(node, "app"): timeline for node, timeline in enumerate(drawn)}
    for sending in sent:
        found = {
            Application(j["node"], j["app"]): (j["expected"], j["decided"])
            for j in judge(History(applications, [sending], changes, delays=delays), WINDOW_NS / 1e9)
        }
        for application, timeline in applications.items():
            wanted = by_definition(timeline, sending, changes, stop)
            assert found.get(application, (False, True)) == wanted


# The oracle and the router's definition of matching, written independently, agree.


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


@pytest.mark.parametrize("kind", Type)
def test_each_constraint_selects_the_values_that_the_definition_selects(kind: Type) -> None:
    values = [value for each in HOSTILE_VALUES.values() for value in each]
    for operator in (each for each in Operator if kind is Type.STRING or each not in STRING_ONLY):
        for bound in HOSTILE_VALUES[kind] if operator is not Operator.ANY else [None]:
            predicate = Predicate((Filter((Constraint("a", kind, operator, bound),)),))
            index = PredicateIndex([predicate_to_json(predicate)])
            found = [value for value in values if index.matching({"a": value})]
            assert found == [value for value in values if matches(predicate, Message({"a": value}))]


@settings(max_examples=500)
@given(st.lists(PREDICATES, max_size=8), MESSAGES)
def test_an_index_of_many_predicates_answers_as_each_alone(
    predicates: list[Predicate], message: Message
) -> None:
    # Through JSON, as in the log.
    index = PredicateIndex(json.loads(json.dumps([predicate_to_json(each) for each in predicates])))
    expected = {number for number, predicate in enumerate(predicates) if matches(predicate, message)}
    assert index.matching(json.loads(json.dumps(message))) == expected
