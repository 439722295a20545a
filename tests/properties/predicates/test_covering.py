"""Covering and simplification against brute force over small domains (`predicate_worlds`)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates import Filter, Message, Predicate, Type, matches, matches_filter
from router.predicates.covering.values import constraints_of, includes, value_set
from tests.support.algebra import covers, disjoin
from tests.support.predicate_worlds import (
    MIXED,
    MIXED_WORLD,
    constraints,
    critical_values,
    messages,
    predicates,
)


@given(st.sampled_from(Type), st.data())
@settings(max_examples=400, deadline=None)
def test_inclusion_of_values_is_exact_for_every_type(kind: Type, data: st.DataObject) -> None:
    first, second = (data.draw(st.lists(constraints("x", [kind]), min_size=1, max_size=4)) for _ in range(2))
    a, b = value_set(kind, first), value_set(kind, second)
    world = [Message({"x": value}) for value in critical_values(kind, second)]
    in_b = [message for message in world if matches_filter(Filter(tuple(second)), message)]
    assert bool(b.intervals) == bool(in_b)
    assert includes(a, b) == all(matches_filter(Filter(tuple(first)), message) for message in in_b)
    if in_b:
        again = constraints_of("x", b)
        assert len(again) <= len(second)
        assert value_set(kind, again) == b
        assert [message for message in world if matches_filter(Filter(again), message)] == in_b


@given(predicates("xy", MIXED), predicates("xy", MIXED))
@settings(max_examples=200, deadline=None)
def test_covering_is_sound(p: Predicate, q: Predicate) -> None:
    if covers(p, q):
        assert not [m for m in MIXED_WORLD if matches(q, m) and not matches(p, m)]


@given(predicates("x", [Type.INTEGER, Type.DOUBLE, Type.BOOLEAN]), st.data())
@settings(max_examples=200, deadline=None)
def test_covering_by_a_union_on_one_attribute_is_exact(p: Predicate, data: st.DataObject) -> None:
    q = data.draw(predicates("x", [Type.INTEGER, Type.DOUBLE, Type.BOOLEAN]))
    world = messages("x", [Type.INTEGER, Type.DOUBLE, Type.BOOLEAN])
    assert covers(p, q) == all(matches(p, m) for m in world if matches(q, m))


@given(predicates("xy", MIXED), predicates("xy", MIXED))
@settings(max_examples=200, deadline=None)
def test_disjoin_matches_what_either_matches(p: Predicate, q: Predicate) -> None:
    joined = disjoin(p, q)
    wrong = [m for m in MIXED_WORLD if matches(joined, m) != (matches(p, m) or matches(q, m))]
    assert not wrong
    assert len(joined) <= len(p) + len(q)
    assert disjoin(joined, p) is joined
    assert disjoin(joined, q) is joined
    assert covers(joined, p)
    assert covers(joined, q)
