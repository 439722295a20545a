"""The bounds on predicates and messages of others, and what senders may still send."""

from __future__ import annotations

from typing import Any

import pytest

from router.predicates.covering.widening import FILTER_WEIGHT_MAX, weight_of
from router.predicates.model import Constraint, Filter, Operator, Type
from router.protocol.bounds import Allowances
from router.protocol.options import MAX_REQUEST_TIMEOUT, RouterOptions


def test_an_allowance_grows_with_time_up_to_the_burst() -> None:
    allowances = Allowances(burst=100, rate=10)
    assert allowances.left(1, 5.0) == 100
    allowances.leave(1, allowances.left(1, 5.0) - 130, 5.0)
    assert allowances.left(1, 5.0) == 0
    assert allowances.left(1, 7.0) == 20
    assert allowances.left(1, 1e6) == 100


def test_an_allowance_is_exact_at_every_time() -> None:
    for start in range(2_000):
        now = start * 0.37
        allowances = Allowances(burst=30, rate=7)
        for left in (30, 20, 10):
            assert allowances.left(1, now) == left
            allowances.leave(1, left - 10, now)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("filter_weight", 0), ("predicate_burst", -1), ("predicate_rate", 0)),
        *(("hop_limit", 0), ("hop_limit", 256), ("ra_period_s", 0.0), ("hello_interval_s", 0.0)),
        *(("sr_policy", "often"), ("sr_period_s", 0.0), ("sr_threshold", -1), ("sr_min_interval_s", -1.0)),
        *(("sr_timeout_s", 0.0), ("sr_timeout_s", MAX_REQUEST_TIMEOUT + 1), ("ur_freshness_s", -1.0)),
        *(("ra_min_interval_s", -1.0), ("ra_jitter_s", -1.0)),
    ],
)
def test_options_outside_their_bounds_are_refused(field: str, value: object) -> None:
    given: dict[str, Any] = {field: value}
    with pytest.raises(ValueError, match=field):
        RouterOptions(**given)


def test_the_bound_on_filters_of_an_entry_has_no_meaning_for_the_strict_rules() -> None:
    with pytest.raises(ValueError, match="max_filters: 0 is not valid; expected an integer, 1 or more"):
        RouterOptions(max_filters=0)
    with pytest.raises(ValueError, match='max_filters: excludes the scheme "pif-strict"'):
        RouterOptions(max_filters=5, scheme="pif-strict")


def test_a_filter_whose_texts_are_not_read_exceeds_every_bound_on_its_weight() -> None:
    greatest = FILTER_WEIGHT_MAX
    assert RouterOptions(filter_weight=greatest).filter_weight == greatest
    many = tuple(Constraint(f"a{n}", Type.INTEGER, Operator.EQ, n) for n in range(greatest + 1))
    assert weight_of(Filter(many)) > greatest
    with pytest.raises(ValueError, match="filter_weight"):
        RouterOptions(filter_weight=greatest + 1)
