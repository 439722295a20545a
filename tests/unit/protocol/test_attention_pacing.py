"""Paced interfaces of the attention-limited service, and priority forwarding by Cbf(P)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from router.predicates.model import Message
from router.predicates.parser import parse_predicate
from router.protocol.core.router import Router
from router.protocol.events import Settle, Tick
from router.protocol.options import RouterOptions
from router.protocol.services.attention.dissemination import AttentionOptions
from router.protocol.services.attention.events import Upload
from router.protocol.services.attention.pacing import Waiting
from router.protocol.services.attention.service import Attention
from router.wire.codec import fragment
from router.wire.frames import Frame, FrameType, Overload, Publication, PublicationFlags, Subscription
from tests.support.one_router import received, sent, set_up

#: A PUB of one integer takes about 0.1 s.
_MBPS = 0.01


def _router(**options: Any) -> Router:
    given = AttentionOptions(**({"pace_mbps": _MBPS} | options))
    return set_up(RouterOptions(service="attention", service_options=given))


def _subscribe(router: Router, x: int, lifetime_s: float, seq: int) -> None:
    body = Subscription(0, 1, 100, round(lifetime_s * 1e6), 10**12, parse_predicate(f"x = {x}"))
    received(router, 11, Frame(FrameType.SUB, 11, seq, 1, 9, body))


def _x(frame: Frame) -> int:
    assert isinstance(frame.body, Publication)
    value = frame.body.message["x"]
    assert isinstance(value, int)
    return value


def _drained(router: Router) -> list[tuple[float, Frame]]:
    """The frames that a router sends unasked, and when, until nothing waits."""
    found = []
    while not router.idle:
        at = router.next_deadline()
        assert at is not None
        found += [(at, frame) for _, frame in sent(router.handle(Tick(), at))]
    return found


def _congested(**options: Any) -> Router:
    """A router at which publications of x = 1, 2 and 3 wait for one interface, in this order.

    Of x = 1 there is one subscription, of x = 2 there are two; that of x = 3 ends first.
    """
    router = _router(**options)
    for seq, (x, lifetime_s) in enumerate(((0, 90.0), (1, 90.0), (2, 90.0), (2, 90.0), (3, 20.0))):
        _subscribe(router, x, lifetime_s, seq)
    now = 10.0
    for x in (0, 1, 2, 3):
        router.handle(Upload(1, Message({"x": x})), now)
    return router


def test_publications_leave_in_the_order_of_the_scheduler() -> None:
    assert [_x(frame) for _, frame in _drained(_congested())] == [1, 2, 3]
    assert [_x(frame) for _, frame in _drained(_congested(scheduler="cbf"))] == [3, 2, 1]


@pytest.mark.parametrize(("scheduler", "kept"), [("fifo", [1, 2]), ("cbf", [3, 2])])
def test_a_full_queue_drops_what_would_leave_last(scheduler: str, kept: list[int]) -> None:
    router = _congested(scheduler=scheduler, queue_publications=2)
    assert router.counters.dropped["queue_full"] == 1
    assert [_x(frame) for _, frame in _drained(router)] == kept


def test_an_interface_sends_no_more_than_its_bandwidth_and_publications_age_meanwhile() -> None:
    router = _congested()
    waited = _drained(router)
    assert len(waited) == 3
    free_at = 10.0
    # The first publication, of x = 0, left at once, with as many bytes.
    length = 14 + len(fragment(waited[0][1])[0])
    for at, frame in waited:
        free_at += length * 8e-6 / _MBPS
        assert at == pytest.approx(free_at)
        assert isinstance(frame.body, Publication)
        assert frame.body.age_us == pytest.approx((at - 10.0) * 1e6, abs=2)
        assert frame.body.flags is PublicationFlags.PENDING


def test_control_frames_do_not_wait_and_use_the_bandwidth() -> None:
    router = _congested()
    before = router.next_deadline()
    assert before is not None
    body = Subscription(0, 1, 1, 10**7, 10**12, parse_predicate("x = 9"))
    ((_, sub),) = sent(received(router, 12, Frame(FrameType.SUB, 12, 1, 1, 9, body), 10.0))
    assert sub.type is FrameType.SUB
    after = router.next_deadline()
    assert after is not None
    assert after == pytest.approx(before + (14 + len(fragment(sub)[0])) * 8e-6 / _MBPS)


def test_priority_passes_from_a_subscription_that_has_ended_to_the_rest() -> None:
    router = _congested(scheduler="cbf")
    # At second 25 the subscription of x = 3 is over: its publication is of no use, and leaves last.
    frames = sent(router.handle(Tick(), 25.0))
    for _ in range(3):
        due = router.next_deadline()
        assert due is not None
        frames += sent(router.handle(Tick(), max(25.0, due)))
    assert [_x(frame) for _, frame in frames] == [2, 1, 3]


def _deadlines(router: Router, homes: tuple[int, ...]) -> list[float]:
    """The deadlines of the subscriptions for which a PUB that waits at interface 1 counts."""
    for seq in (1, 2):
        body = Publication(12, seq, 0, Message({"x": 1}), PublicationFlags.NONE, homes)
        received(router, 12, Frame(FrameType.PUB, 12, seq, 1, 9, body), 1.0)
    assert isinstance(router._service, Attention)
    assert router._service._pacing is not None
    (waiting,) = router._service._pacing._interfaces[1].queue
    return waiting.deadlines


@pytest.mark.parametrize(
    ("ended", "homes", "deadlines"),
    [
        ((), (11,), [20.0, 30.0]),
        ((), (11, 21), [20.0, 30.0, 40.0]),
        # Subscriptions that lack nothing do not count, unless none of the home's lacks any.
        (((11, 1),), (11, 21), [30.0, 40.0]),
        (((11, 1), (11, 2)), (11, 21), [20.0, 30.0, 40.0]),
    ],
)
def test_priority_counts_the_subscriptions_of_every_home_that_lack_publications(
    ended: tuple[tuple[int, int], ...], homes: tuple[int, ...], deadlines: list[float]
) -> None:
    router = _router(scheduler="cbf")
    for issuer, seq, lifetime_s in ((11, 1, 20.0), (11, 2, 30.0), (21, 1, 40.0)):
        body = Subscription(0, 1, 100, round(lifetime_s * 1e6), 10**12, parse_predicate("x = 1"))
        received(router, 11, Frame(FrameType.SUB, issuer, seq, 1, 9, body))
    for issuer, seq in ended:
        received(router, 11, Frame(FrameType.OVERLOAD, issuer, seq, 1, 9, Overload(0)))
    assert _deadlines(router, homes) == deadlines


@pytest.mark.parametrize(
    ("deadlines", "score"),
    [([], 0.0), ([10.0], 0.0), ([10.0, 10.5], 2.0), ([12.0, 14.0, 14.0], 1.5), ([10.0001, 30.0], 2000.0)],
)
def test_a_score_is_bounded_at_a_millisecond_before_a_deadline(deadlines: list[float], score: float) -> None:
    frame = Frame(
        FrameType.PUB, 11, 1, 1, 9, Publication(11, 1, 0, Message({}), PublicationFlags.NONE, (12,))
    )
    assert Waiting(frame, 0.0, 1, 0.1, deadlines).cbf(10.0) == score


def test_the_greatest_age_of_a_frame_does_not_grow_in_a_queue() -> None:
    router = _router()
    for seq in (1, 2):
        body = Publication(11, seq, 2**64 - 1, Message({"x": 1}), PublicationFlags.NONE, (12,))
        received(router, 11, Frame(FrameType.PUB, 11, seq, 1, 9, body), 10.0)
    ((_, waited),) = _drained(router)
    assert isinstance(waited.body, Publication)
    assert waited.body.age_us == 2**64 - 1
    assert fragment(waited)


def test_frames_of_a_retired_epoch_do_not_leave() -> None:
    router = _congested()
    waiting = router._service._pacing._interfaces[1].queue  # type: ignore[attr-defined]
    waiting[0].frame = replace(waiting[0].frame, epoch=77)
    assert [_x(frame) for _, frame in _drained(router)] == [2, 3]
    assert router.counters.dropped["unknown_epoch"] == 1
    router.handle(Settle(), 99.0)
    assert router.idle
