"""Widening under bounds never loses a message, and leaves alone what is within the bounds."""

from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates.covering.budget import (
    Allowance,
    Allowances,
    PredicateLimits,
    chunks,
    total_weight,
    weight_of,
    widen_to,
)
from router.predicates.covering.pool import FilterPool
from router.predicates.model import Filter, Predicate
from router.predicates.semantics import matches
from tests.support.predicate_worlds import MIXED, MIXED_WORLD, predicates

_LIMITS = st.builds(
    PredicateLimits,
    filter_weight=st.integers(1, 8),
    predicate_weight=st.integers(1, 20),
    turn_weight=st.integers(2, 10),
)
_MANY = st.lists(predicates("xy", MIXED), max_size=6).map(
    lambda parts: Predicate(tuple(filter_ for part in parts for filter_ in part))
)


@given(_MANY, _LIMITS, st.integers(0, 20))
@settings(max_examples=300, deadline=None)
def test_a_widened_predicate_matches_all_that_the_original_does(
    predicate: Predicate, limits: PredicateLimits, allowed: int
) -> None:
    wide = widen_to(predicate, limits, allowed)
    for message in MIXED_WORLD:
        assert matches(wide, message) or not matches(predicate, message)


@given(_MANY, _LIMITS)
@settings(max_examples=300, deadline=None)
def test_what_is_within_the_bounds_is_unchanged(predicate: Predicate, limits: PredicateLimits) -> None:
    weights = [weight_of(filter_) for filter_ in predicate]
    within = max(weights, default=0) <= limits.filter_weight and sum(weights) <= limits.predicate_weight
    parts = list(chunks(predicate, limits, limits.predicate_weight))
    read = tuple(filter_ for part in parts for filter_ in part.predicate)
    if within:
        assert read == predicate.filters
        assert widen_to(predicate, limits) is predicate
    assert parts[-1].widened is not within
    for part in parts:
        assert part.weight <= limits.turn_weight or part.weight <= limits.filter_weight
    assert total_weight(predicate) == sum(weights)
    if total_weight(predicate) <= limits.turn_weight and within:
        assert len(parts) == 1


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 60), st.floats(0, 2)), max_size=200))
def test_allowances_that_are_forgotten_were_full(uses: list[tuple[int, int, float]]) -> None:
    limits = PredicateLimits(burst=100, rate=50)
    allowances, kept, now = Allowances(limits), dict[int, Allowance](), 0.0
    for sender, weight, pause in uses:
        now += pause
        allowance, expected = allowances.of(sender, now), kept.setdefault(sender, Allowance(limits, now))
        assert allowance.left(now) == expected.left(now)
        allowance.use(weight)
        expected.use(weight)
    assert len(allowances) <= len(kept)


@given(st.lists(predicates("xy", MIXED), max_size=5), st.integers(0, 40))
@settings(max_examples=150, deadline=None)
def test_a_table_under_a_bound_matches_the_same(added: list[Predicate], pairs: int) -> None:
    pool = FilterPool()
    members = 0
    kept: list[Filter] = []
    for predicate in added:
        with pool.bounded(pairs):
            members = pool.add(members, pool.numbers(predicate))
        kept += predicate.filters
    whole, table = Predicate(tuple(kept)), pool.predicate(members)
    for message in MIXED_WORLD:
        assert matches(table, message) == matches(whole, message)
