"""Large predicates of applications: p0 changes in several turns, and the application is answered then."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from router.predicates.covering.pool import FilterPool
from router.predicates.model import Constraint, Filter, Message, Operator, Predicate, Type
from router.predicates.parser import parse_predicate
from router.predicates.printer import format_predicate
from router.protocol.core.router import Router
from router.protocol.events import (
    Action,
    ApplicationGone,
    Deliver,
    Event,
    PredicatePostponed,
    PredicateSet,
    Refused,
    SendMessage,
    SetPredicate,
    Tick,
)
from router.protocol.options import RouterOptions
from tests.support.one_router import sent, set_up
from tests.support.router_tables import predicates_of

_OPTIONS = RouterOptions(turn_weight=80, filter_weight=30)


def _points(start: int, end: int) -> Predicate:
    """Filters that cannot be merged."""
    return Predicate(
        tuple(Filter((Constraint("x", Type.INTEGER, Operator.EQ, 2 * n),)) for n in range(start, end))
    )


def _until_idle(router: Router) -> list[list[Action]]:
    """The actions of each turn until the router is idle."""
    turns = []
    while not router.idle:
        assert router.next_deadline() == 1.0
        turns.append(router.handle(Tick(), 1.0))
    return turns


def _delivered(router: Router, x: int) -> tuple[int, ...]:
    actions = router.handle(SendMessage(9, Message({"x": x})), 1.0)
    return next((action.apps for action in actions if isinstance(action, Deliver)), ())


def test_a_large_predicate_is_set_in_several_turns_and_advertised_once() -> None:
    router = set_up(_OPTIONS)
    assert router.handle(SetPredicate(1, _points(0, 100)), 1.0) == [PredicatePostponed(1)]
    assert _delivered(router, 0) == ()
    *turns, last = _until_idle(router)
    assert len(turns) >= 30  # 10 parts of 10 filters, each read, related and united
    assert not any(turns)
    assert last[0] == PredicateSet(1)
    assert [(frame.type.name, frame.body) for _, frame in sent(last)] == [("RA", _points(0, 100))]
    assert predicates_of(router)[0] == _points(0, 100)
    assert _delivered(router, 0) == (1,)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The pairs of filters that the pool has compared: a number for each comparison of one with others."""
    found: list[int] = []
    for name in ("_compare", "_compare_covered"):
        whole = getattr(FilterPool, name)

        def counted(pool: FilterPool, number: int, relations: Any, others: int, whole: Any = whole) -> None:
            found.append(others.bit_count())
            whole(pool, number, relations, others)

        monkeypatch.setattr(FilterPool, name, counted)
    return found


def _overlapping(start: int, end: int) -> Predicate:
    """Filters that overlap all others: each may be covered, by any of them or by several together."""
    ranges = [f"x >= {n} and x < {1_000 + n} and y >= {-n} and y < {1_000 - n}" for n in range(start, end)]
    return parse_predicate(" or ".join(ranges))


def _most_compared(router: Router, compared: list[int]) -> tuple[int, int]:
    """The number of turns until the router is idle, and the most pairs that one of them compared."""
    turns = most = 0
    while not router.idle:
        compared.clear()
        router.handle(Tick(), 1.0)
        turns, most = turns + 1, max(most, sum(compared))
    return turns, most


def test_a_turn_compares_a_part_of_the_pairs_of_a_turn(compared: list[int]) -> None:
    router = set_up(RouterOptions(turn_pairs=2_000))
    router.handle(SetPredicate(1, _overlapping(0, 500)), 1.0)
    _, most = _most_compared(router, compared)
    assert 0 < most <= 2_000 // 4
    assert _delivered(router, 0) == ()


@pytest.mark.parametrize("event", [SetPredicate(7, _points(0, 1)), ApplicationGone(7)])
def test_a_small_predicate_that_narrows_among_many_takes_several_turns(
    event: Event, compared: list[int]
) -> None:
    router = set_up(RouterOptions(turn_pairs=2_000))
    for app in range(50):
        assert router.handle(SetPredicate(app, _overlapping(6 * app, 6 * app + 6)), 1.0) != [
            PredicatePostponed(app)
        ]
    compared.clear()
    assert router.handle(event, 1.0) == [PredicatePostponed(7)]
    assert compared == []
    turns, most = _most_compared(router, compared)
    assert turns >= 60  # 300 filters of the weight 5 in parts of the weight 32: read, related and united
    assert most <= 2_000 // 4


def test_a_change_of_a_quarter_of_the_weight_of_a_turn_is_made_in_one_turn() -> None:
    """It reads, compares, relates and unites the filters, each of which is a turn for more of them."""
    router = set_up(_OPTIONS)
    # The weight of a filter with one constraint is 2.
    assert router.handle(SetPredicate(1, _points(0, 10)), 1.0) != [PredicatePostponed(1)]
    assert router.handle(SetPredicate(2, _points(0, 11)), 1.0) == [PredicatePostponed(2)]


def test_a_small_predicate_that_grows_among_many_is_set_at_once() -> None:
    router = set_up(_OPTIONS)
    for app in range(20):
        router.handle(SetPredicate(app, _points(5 * app, 5 * app + 4)), 1.0)
    assert router.handle(SetPredicate(3, _points(15, 20)), 1.0) != [PredicatePostponed(3)]
    assert router.idle
    assert _delivered(router, 2 * 19) == (3,)


def test_applications_that_leave_together_go_in_one_change() -> None:
    def turns(leaving: int) -> int:
        router = set_up(_OPTIONS)
        for app in range(20):
            router.handle(SetPredicate(app, _points(5 * app, 5 * app + 5)), 1.0)
        for app in range(leaving):
            assert router.handle(ApplicationGone(app), 1.0) == [PredicatePostponed(app)]
        taken = _until_idle(router)
        assert predicates_of(router)[0] == _points(5 * leaving, 100)
        assert [_delivered(router, 10 * app) for app in range(20)] == [
            (app,) if app >= leaving else () for app in range(20)
        ]
        return len(taken)

    # A turn for each further application: nothing is left to do for it.
    assert turns(10) <= turns(1) + 9


def test_a_predicate_that_shrinks_leaves_p0_as_it_was_until_the_change_is_whole() -> None:
    router = set_up(_OPTIONS)
    router.handle(SetPredicate(1, _points(0, 100)), 1.0)
    _until_idle(router)
    router.handle(SetPredicate(1, _points(50, 120)), 1.0)
    assert _delivered(router, 0) == (1,)
    _until_idle(router)
    assert _delivered(router, 0) == ()
    assert predicates_of(router)[0] == _points(50, 120)


def test_changes_are_made_in_their_order() -> None:
    router = set_up(_OPTIONS)
    router.handle(SetPredicate(1, _points(0, 100)), 1.0)
    # A small one waits behind a large one, and the last of an application's prevails.
    assert router.handle(SetPredicate(2, _points(7, 8)), 1.0) == [PredicatePostponed(2)]
    router.handle(SetPredicate(1, _points(200, 300)), 1.0)
    done = [turn[0] for turn in _until_idle(router) if turn]
    assert done == [PredicateSet(1), PredicateSet(2), PredicateSet(1)]
    assert _delivered(router, 14) == (2,)
    assert _delivered(router, 400) == (1,)


def test_an_application_that_left_gets_nothing_more() -> None:
    router = set_up(_OPTIONS)
    for app in (1, 2):
        router.handle(SetPredicate(app, _points(0, 100)), 1.0)
    _until_idle(router)
    router.handle(SetPredicate(1, _points(100, 200)), 1.0)
    router.handle(Tick(), 1.0)
    router.handle(ApplicationGone(1), 1.0)
    assert _delivered(router, 0) == (2,)
    _until_idle(router)
    assert predicates_of(router)[0] == _points(0, 100)
    # A new application may have its number.
    router.handle(SetPredicate(1, _points(0, 1)), 1.0)
    _until_idle(router)
    assert _delivered(router, 0) == (2, 1)


def test_a_filter_that_is_too_heavy_is_refused() -> None:
    heavy = parse_predicate(" and ".join(f"a{n} = 1" for n in range(40)))
    router = set_up(_OPTIONS)
    router.handle(SetPredicate(1, _points(0, 3)), 1.0)
    router.handle(SetPredicate(1, heavy), 1.0)
    (refused,) = next(turn for turn in _until_idle(router) if turn)
    assert isinstance(refused, Refused)
    assert refused.reason == ("a filter has the weight 41; at most 30 ([protocol] filter_weight)")
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
    assert _until_idle(router)[-1][0] == PredicateSet(1)
    router.handle(SetPredicate(1, _points(0, 51)), 1.0)
    assert _until_idle(router)[-1] == [Refused(1, reason)]
    assert predicates_of(router)[0] == _points(0, 50)


def _serve(router: Router, operation: str, predicate: Predicate) -> tuple[list[str], dict[str, Any]]:
    """Serves a request to the end: what happened in each turn, and the answer."""
    session = router.session(1)
    turns: list[str] = []

    def handle(event: Event) -> list[Action]:
        return router.handle(event, 1.0)

    served = session.commands()[operation]({"predicate": format_predicate(predicate)}, handle)
    assert isinstance(served, Generator)
    action: Action | None = None
    while True:
        try:
            waits = served.send(action)
        except StopIteration as end:
            return turns, end.value[0]
        turns.append("wait" if waits else "parse")
        action = None
        while waits and action is None:
            action = next(iter(router.handle(Tick(), 1.0)), None)


def test_a_long_request_is_parsed_in_several_turns_and_answered_when_p0_has_changed() -> None:
    for operation in ("set_predicate", "subscribe"):
        router = set_up(_OPTIONS)
        turns, answer = _serve(router, operation, _points(0, 500))
        assert turns.count("parse") >= 500 * 4 // 400 - 1
        assert turns[-1] == "wait"
        assert answer["ok"] is True
        assert predicates_of(router)[0] == _points(0, 500)
