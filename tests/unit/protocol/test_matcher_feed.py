"""Large changes of the table reach the matching engine in several turns; no message is lost meanwhile."""

from __future__ import annotations

import pytest

from router.predicates.covering.pool import POOL
from router.predicates.model import Message
from router.protocol import routing
from router.protocol.events import FrameReceived, Tick
from router.protocol.options import RouterOptions
from router.protocol.router import Router
from router.wire.frames import Frame, FrameType
from tests.support.one_router import msg, ra, sent, set_up

#: Filters that reach the engine in one turn.
_TURN = 20


@pytest.fixture(params=["counting", "compiled"])
def router(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Router:
    """A router with 100 filters beyond interface 1, and none of them in the engine."""
    # The pool of the process has filters of other tests too.
    monkeypatch.setattr(routing, "_ANSWERED_BY_POOL", 10**6)
    made = set_up(RouterOptions(turn_weight=_TURN, turn_pairs=10**6, match_patience=0), matcher=request.param)
    for first in range(0, 100, 5):
        text = " or ".join(f"x = {2 * number}" for number in range(first, first + 5))
        made.handle(FrameReceived(11, ra(11, text, seq=first + 1)), 1.0)
    assert made.next_deadline() is None
    return made


def _goes_to(router: Router, x: int) -> set[int]:
    actions = sent(router.handle(FrameReceived(12, msg(12, x=x)), 2.0))
    return set().union(*(interfaces for interfaces, _ in actions))


def _turns(router: Router) -> int:
    """Turns until the engine has all changes that messages have asked about."""
    count = 0
    while (due := router.next_deadline()) is not None:
        assert due <= 2.0
        assert router.handle(Tick(), 2.0) == []
        count += 1
    return count


def test_the_engine_gets_so_many_filters_a_turn_and_answers_are_exact_meanwhile(router: Router) -> None:
    for x in (0, 1, 100, 198):
        assert _goes_to(router, x) == ({1} if x % 2 == 0 else set())
    # Each message has taken its turn's share.
    assert _turns(router) == 100 // _TURN - 4
    assert [x for x in range(205) if _goes_to(router, x)] == list(range(0, 200, 2))


@pytest.mark.parametrize("matcher", ["counting", "compiled"])
def test_heavy_filters_count_as_several(matcher: str) -> None:
    """The engine's time grows with the constraints."""
    router = set_up(RouterOptions(turn_weight=_TURN, match_patience=0), matcher=matcher)
    filters = (" and ".join(f"a{each} = {n}" for each in range(100)) for n in range(10))
    router.handle(FrameReceived(11, ra(11, " or ".join(filters))), 1.0)
    while not router.idle:
        router.handle(Tick(), 1.0)
    assert _goes_to(router, 1) == set()
    # Each has the weight 101, and counts as 13 filters: two are in a part.
    assert _turns(router) == 10 // 2 - 1
    frame = msg(12, **{f"a{each}": 3 for each in range(100)})
    ((interfaces, _),) = sent(router.handle(FrameReceived(12, frame), 2.0))
    assert interfaces == {1}


def test_while_the_pool_is_too_large_a_message_counts_as_matching(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "_ANSWERED_BY_POOL", 10)
    assert _goes_to(router, 1) == {1}
    _turns(router)
    assert _goes_to(router, 1) == set()
    assert router.counters.messages_unwanted == 1


def test_while_the_engine_lacks_filters_a_long_message_counts_as_matching(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool compares a short one with each of its filters within a turn, and not a long one."""
    monkeypatch.setattr(routing, "_ANSWERED_BY_POOL", 10 * len(POOL))
    assert _goes_to(router, 1) == set()
    ((interfaces, _),) = sent(router.handle(FrameReceived(12, msg(12, x=1, s="a" * 40_000)), 2.0))
    assert interfaces == {1}
    _turns(router)
    assert sent(router.handle(FrameReceived(12, msg(12, x=1, s="a" * 40_000)), 2.0)) == []


def test_the_router_is_idle_meanwhile(router: Router) -> None:
    assert _goes_to(router, 0) == {1}
    assert router.next_deadline() is not None
    assert router.idle


def test_filters_that_go_while_others_come_leave_no_trace(router: Router) -> None:
    assert _goes_to(router, 0) == {1}
    router.handle(Tick(), 2.0)
    router.handle(FrameReceived(11, ra(11, "x < 150", seq=900)), 2.0)
    assert _goes_to(router, 1) == {1}
    _turns(router)
    assert [x for x in range(205) if _goes_to(router, x)] == [*range(150), *range(150, 200, 2)]


def test_a_message_that_no_application_wants_is_unwanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "_ANSWERED_BY_POOL", 10)
    router = set_up(RouterOptions(turn_weight=_TURN))
    session = router.session(1)
    text = " or ".join(f"x = {2 * number}" for number in range(100))
    session.commands()["set_predicate"]({"predicate": text}, lambda event: router.handle(event, 1.0))
    frame = Frame(FrameType.MSG, 12, 1, 1, 9, Message({"x": 1}))
    assert router.handle(FrameReceived(12, frame), 2.0) == []
    assert (router.counters.messages_delivered, router.counters.messages_unwanted) == (0, 1)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Router:
    """A router whose engine gets a change after three messages; all messages with an even `x` go to 1."""
    monkeypatch.setattr(routing, "_LIGHT", 10**9)
    made = set_up(RouterOptions(match_patience=3), matcher="compiled")
    made.handle(FrameReceived(11, ra(11, " or ".join(f"x = {2 * number}" for number in range(5)))), 1.0)
    return made


def _is_laid_out(router: Router) -> bool:
    state = router.forwarding()
    assert state is not None
    return state.routing.synced


def test_the_engine_gets_a_change_once_enough_messages_have_come(patient: Router) -> None:
    for x in (0, 1, 4):
        assert _goes_to(patient, x) == ({1} if x % 2 == 0 else set())
        assert not _is_laid_out(patient)
    assert _goes_to(patient, 6) == {1}
    assert _is_laid_out(patient)
    patient.handle(FrameReceived(11, ra(11, "x = 1", seq=900)), 2.0)
    assert _goes_to(patient, 1) == {1}
    assert not _is_laid_out(patient)


def test_the_engine_gets_a_change_at_once_if_answers_without_it_take_longer(
    patient: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "_LIGHT", 4)
    assert _goes_to(patient, 0) == {1}
    assert _is_laid_out(patient)
