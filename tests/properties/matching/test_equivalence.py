"""Every engine, whatever its options, answers as the naive one does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.matching.engines import NaiveMatcher, factory
from router.predicates import Message, Predicate
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_messages, draw_table
from tests.support.matching_variants import VARIANTS
from tests.support.predicate_worlds import FEW_STRINGS, MIXED, predicates

INTERFACES = st.integers(0, 5)
#: An interface and its new predicate, or none to remove it.
CHANGES = st.tuples(INTERFACES, st.none() | predicates("xyz", MIXED))
VALUES = st.one_of(
    st.sampled_from(FEW_STRINGS), st.integers(-1, 5), st.sampled_from([-0.0, 1.0, 2.5, 3.0]), st.booleans()
)
MESSAGES = st.dictionaries(st.sampled_from("xyzw"), VALUES).map(Message)


@given(
    st.lists(st.tuples(CHANGES, st.lists(MESSAGES, max_size=4), st.none() | st.sets(INTERFACES)), max_size=8)
)
def test_every_engine_is_naive_through_every_change(
    history: list[tuple[tuple[int, Predicate | None], list[Message], set[int] | None]],
) -> None:
    naive, engines = NaiveMatcher(), {name: factory(name) for name in VARIANTS}
    for (interface, predicate), messages, among in history:
        for engine in (naive, *engines.values()):
            if predicate is None:
                engine.remove(interface)
            else:
                engine.set_predicate(interface, predicate)
        for message in messages:
            expected = naive.match(message, among)
            for name, engine in engines.items():
                assert engine.match(message, among) == expected, name


#: Few and large predicates; many and small ones; few words, so that much matches; `any`, `!=` and the like.
SHAPES = {
    "few interfaces": MatchingWorkload(600, 4, 10_000),
    "many interfaces": MatchingWorkload(600, 150, 10_000),
    "few words": MatchingWorkload(
        300, 60, 10_000, filter_constraints=(2, 5), message_attributes=(3, 8), words=9, integers=4
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_engine_is_naive_on_ten_thousand_messages(shape: str) -> None:
    table, messages = draw_table(SHAPES[shape]), list(draw_messages(SHAPES[shape]))
    naive = NaiveMatcher()
    naive.load(table)
    expected = [naive.match(message) for message in messages]
    assert sum(map(bool, expected)) > 1000
    for name in VARIANTS:
        engine = factory(name)
        engine.load(table)
        assert [engine.match(message) for message in messages] == expected, name
