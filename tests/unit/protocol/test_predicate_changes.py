"""Predicates of applications: each change of p0 is whole, advertised once, or refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.predicates.model import Constraint, Filter, Message, Operator, Predicate, Type
from router.predicates.parser import parse_predicate
from router.protocol.core.router import Router
from router.protocol.events import ApplicationGone, Deliver, Refused, SendMessage, SetPredicate
from router.protocol.options import RouterOptions
from tests.support.one_router import sent, set_up
from tests.support.router_tables import predicates_of

_OPTIONS = RouterOptions(filter_weight=30)


def _points(start: int, end: int) -> Predicate:
    """Filters that cannot be merged."""
    return Predicate(
        tuple(Filter((Constraint("x", Type.INTEGER, Operator.EQ, 2 * n),)) for n in range(start, end))
    )


def _delivered(router: Router, x: int) -> tuple[int, ...]:
    actions = router.handle(SendMessage(9, Message({"x": x})), 1.0)
    return next((action.apps for action in actions if isinstance(action, Deliver)), ())


def test_a_large_predicate_is_advertised_once() -> None:
    router = set_up(_OPTIONS)
    actions = router.handle(SetPredicate(1, _points(0, 100)), 1.0)
    assert [(frame.type.name, frame.body) for _, frame in sent(actions)] == [("RA", _points(0, 100))]
    assert predicates_of(router)[0] == _points(0, 100)
    assert _delivered(router, 0) == (1,)


def test_applications_that_leave_take_their_predicates_along() -> None:
    router = set_up(_OPTIONS)
    for app in range(20):
        router.handle(SetPredicate(app, _points(5 * app, 5 * app + 5)), 1.0)
    for app in range(10):
        router.handle(ApplicationGone(app), 1.0)
    assert predicates_of(router)[0] == _points(50, 100)
    assert [_delivered(router, 10 * app) for app in range(20)] == [
        (app,) if app >= 10 else () for app in range(20)
    ]
    # A new application may have the number of one that left.
    router.handle(SetPredicate(1, _points(0, 1)), 1.0)
    assert _delivered(router, 0) == (1,)


def test_a_predicate_that_narrows_and_one_that_shifts() -> None:
    router = set_up(_OPTIONS)
    for app, predicate in ((1, _points(0, 100)), (2, _points(90, 95)), (1, _points(50, 120))):
        router.handle(SetPredicate(app, predicate), 1.0)
    assert _delivered(router, 0) == ()
    assert _delivered(router, 180) == (1, 2)
    assert predicates_of(router)[0] == _points(50, 120)


def test_a_filter_that_is_too_heavy_is_refused() -> None:
    heavy = parse_predicate(" and ".join(f"a{n} = 1" for n in range(40)))
    router = set_up(_OPTIONS)
    router.handle(SetPredicate(1, _points(0, 3)), 1.0)
    assert router.handle(SetPredicate(1, heavy), 1.0) == [
        Refused(1, "a filter has the weight 41; at most 30 ([protocol] filter_weight)")
    ]
    assert predicates_of(router)[0] == _points(0, 3)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            replace(_OPTIONS, predicate_filters=50),
            "51 filters; at most 50 ([protocol] predicate_filters)",
        ),
        (
            replace(_OPTIONS, predicate_weight=101),
            "the predicate has the weight 102; at most 101 ([protocol] predicate_weight)",
        ),
    ],
)
def test_a_predicate_that_other_routers_would_widen_is_refused(options: RouterOptions, reason: str) -> None:
    router = set_up(options)
    router.handle(SetPredicate(1, _points(0, 50)), 1.0)
    assert router.handle(SetPredicate(1, _points(0, 51)), 1.0) == [Refused(1, reason)]
    assert predicates_of(router)[0] == _points(0, 50)
