"""Widening under bounds never loses a message, and leaves alone what is within the bounds."""

from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates import Predicate, matches
from router.predicates.covering.widening import total_weight, weight_of, widen
from router.protocol.bounds import Allowances
from tests.support.predicate_worlds import MIXED, MIXED_WORLD, predicates

_WEIGHTS = st.integers(0, 100)
_MANY = st.lists(predicates("xy", MIXED), max_size=6).map(
    lambda parts: Predicate(tuple(filter_ for part in parts for filter_ in part))
)


@given(_MANY, st.integers(1, 100), _WEIGHTS, st.integers(1, 8))
@settings(max_examples=300, deadline=None)
def test_a_widened_predicate_matches_all_that_the_original_does(
    predicate: Predicate, filter_weight: int, weight: int, most: int
) -> None:
    wide = Predicate(tuple(widen(predicate, filter_weight, weight, most)[0]))
    for message in MIXED_WORLD:
        assert matches(wide, message) or not matches(predicate, message)


@given(_MANY, st.integers(1, 100), _WEIGHTS)
@settings(max_examples=300, deadline=None)
def test_what_is_within_the_bounds_is_unchanged(
    predicate: Predicate, filter_weight: int, weight: int
) -> None:
    weights = [weight_of(filter_) for filter_ in predicate]
    within = max(weights, default=0) <= filter_weight and sum(weights) <= weight
    read, total, widened = widen(predicate, filter_weight, weight, 100)
    assert widened is not within
    assert total <= weight
    if within:
        assert (tuple(read), total) == (predicate.filters, sum(weights))
    assert total_weight(predicate) == sum(weights)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 60), st.floats(0, 2)), max_size=200))
def test_allowances_that_are_forgotten_were_full(uses: list[tuple[int, int, float]]) -> None:
    allowances, kept, now = Allowances(100, 50), dict[int, Allowances](), 0.0
    for sender, weight, pause in uses:
        now += pause
        # The allowance of one sender alone is never forgotten.
        alone = kept.setdefault(sender, Allowances(100, 50))
        assert allowances.left(sender, now) == alone.left(sender, now)
        for each in (allowances, alone):
            each.charge(sender, weight, now)
    assert len(allowances) <= len(kept)
