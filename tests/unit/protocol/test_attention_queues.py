"""FLUSHes, paced interfaces and priority forwarding by Cbf(P) of the attention-limited service."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from router.predicates import Message
from router.predicates.parser import parse_predicate
from router.protocol.core.router import Router
from router.protocol.events import Action, Settle, Tick
from router.protocol.services.attention import Index, Upload
from router.wire.codec import fragment
from router.wire.frames import Frame, FrameType, Overload, Publication, PublicationFlags, Subscription
from tests.support.attention_router import attention_router, frame_of, register, state_of, sub, types, upload
from tests.support.one_router import INCARNATION, NODE, received, sent

_NONE, _CUSTODY = PublicationFlags.NONE, PublicationFlags.CUSTODY
_TAKEN, _REFUSED = PublicationFlags.TAKEN, PublicationFlags.REFUSED
#: Identifiers of the uploads of the router.
_FIRST, _SECOND = ((NODE, INCARNATION << 32 | number) for number in (1, 2))
_ALL = frozenset({1, 2, 3})

#: Interfaces, publication, age in seconds and flags of a FLUSH.
_Flush = tuple[frozenset[int], tuple[int, int], float, PublicationFlags]


def _router() -> Router:
    return attention_router(flushing="neighbour", cache_publications=1)


def _flushes(actions: list[Action]) -> list[_Flush]:
    return [
        (frozenset(to), (body.source, body.seq), body.age_us / 1e6, body.flags)
        for to, frame in sent(actions)
        if frame.type is FrameType.FLUSH and isinstance(body := frame.body, Publication)
    ]


def _answer(router: Router, interface: int, flags: PublicationFlags, now: float) -> list[Action]:
    """A neighbour answers the offer of the first upload; it is node 10 and the number of the interface."""
    body = Publication(*_FIRST, 0, Message({}), flags)
    return received(router, 10 + interface, frame_of(FrameType.FLUSH, 10 + interface, 1, body), now)


def _flushed(
    router: Router, seq: int, flags: PublicationFlags, now: float = 10.0, age_s: int = 1
) -> list[Action]:
    """A neighbour flushes a publication of node 21."""
    body = Publication(21, seq, age_s * 1_000_000, Message({"x": 1}), flags)
    return received(router, 11, frame_of(FrameType.FLUSH, 11, seq, body), now)


def _offered(router: Router) -> int:
    """Two uploads; returns the interface on which the router offers custody of the first, at second 5."""
    assert types(upload(router, x=1)) == []
    ((to, id_, age_s, flags),) = _flushes(upload(router, 5.0, x=1))
    assert (id_, age_s, flags) == (_FIRST, 5.0, _CUSTODY)
    (interface,) = to
    return interface


def test_custody_is_offered_to_one_neighbour_after_another_until_one_takes_it() -> None:
    router = _router()
    first = _offered(router)
    ((to, id_, age_s, flags),) = _flushes(_answer(router, first, _REFUSED, 6.0))
    assert (id_, age_s, flags) == (_FIRST, 6.0, _CUSTODY)
    (second,) = to
    assert second != first
    # The first one is not asked now, and its answer is out of place.
    assert _answer(router, first, _TAKEN, 6.0) == []
    assert router.counters.dropped["flush_unexpected"] == 1
    assert not router.idle
    assert _answer(router, second, _TAKEN, 6.5) == []
    assert router.idle
    assert router.next_deadline() is None
    assert router.counters.custody_lost == 0


def test_custody_that_all_neighbours_refuse_is_lost() -> None:
    router = _router()
    asked = [_offered(router)]
    for _ in range(2):
        ((to, *_),) = _flushes(_answer(router, asked[-1], _REFUSED, 6.0))
        asked += to
    assert set(asked) == _ALL
    assert _answer(router, asked[-1], _REFUSED, 6.0) == []
    assert router.counters.custody_lost == 1
    assert router.idle


def test_a_neighbour_that_does_not_answer_is_asked_three_times_and_no_other() -> None:
    """It may have taken the publication: another one would make it pending at two routers."""
    router = _router()
    interface = _offered(router)
    for now in (6.0, 7.0):
        assert router.next_deadline() == now
        assert _flushes(router.handle(Tick(), now)) == [(frozenset({interface}), _FIRST, now, _CUSTODY)]
    assert router.counters.custody_lost == 0
    assert router.handle(Tick(), 8.0) == []
    assert router.counters.custody_lost == 1
    assert router.idle


def test_an_offer_that_is_repeated_gets_the_first_answer() -> None:
    router = _router()
    for _ in range(2):
        assert _flushes(_flushed(router, 1, _CUSTODY)) == [(frozenset({1}), (21, 1), 1.0, _TAKEN)]
    assert [cached.index for cached in state_of(router).cache] == [Index.PPT]
    # Older than what is cached: it would be the first to leave.
    refused = [(frozenset({1}), (21, 2), 5.0, _REFUSED)]
    assert _flushes(_flushed(router, 2, _CUSTODY, age_s=5)) == refused
    # With an age that the cache would admit now, the refusal holds: another neighbour may have it.
    repeated = _flushes(_flushed(router, 2, _CUSTODY, now=20.0))
    assert repeated == [(frozenset({1}), (21, 2), 1.0, _REFUSED)]
    assert [cached.id for cached in state_of(router).cache] == [(21, 1)]


@pytest.mark.parametrize("known_by", ["cache", "delivery"])
def test_custody_of_a_publication_that_is_known_is_refused(known_by: str) -> None:
    """If it is cached, and if it was delivered and has left the cache since."""
    router = _router()
    if known_by == "delivery":
        register(router, 1, lifetime_s=60.0)
    _flushed(router, 1, _NONE)
    if known_by == "delivery":
        upload(router, 11.0, x=2)
    assert (state_of(router).cache.get((21, 1)) is None) == (known_by == "delivery")
    answers = _flushes(_flushed(router, 1, _CUSTODY, 12.0, age_s=0))
    assert answers == [(frozenset({1}), (21, 1), 0.0, _REFUSED)]
    assert router.counters.dropped["flush_unexpected"] == 1


@pytest.mark.parametrize("index", [Index.PPT, Index.DPT, Index.OPT])
def test_what_somebody_had_is_flushed_as_a_copy_to_all_neighbours(index: Index) -> None:
    router = _router()
    upload(router, x=1)
    if index is not Index.OPT:
        register(router, 1)  # Row L1: pending, with DF.
    if index is not Index.PPT:
        received(router, 11, sub())  # Row P1.
    (cached,) = state_of(router).cache
    assert cached.index is index
    assert _flushes(upload(router, 5.0, x=2)) == [(_ALL, _FIRST, 5.0, _NONE)]
    assert router.idle


@pytest.mark.parametrize("flags", [_NONE, _CUSTODY])
def test_what_came_in_a_flush_and_what_it_replaces_are_not_flushed(flags: PublicationFlags) -> None:
    router = _router()
    upload(router, x=1)
    answers = [_TAKEN] if flags is _CUSTODY else []
    assert [each[3] for each in _flushes(_flushed(router, 1, flags))] == answers
    assert [cached.id for cached in state_of(router).cache] == [(21, 1)]
    assert upload(router, 11.0, x=2)[1:] == []
    assert [cached.id for cached in state_of(router).cache] == [_SECOND]
    assert router.counters.publications_evicted == 2
    assert router.idle


#: A PUB of one integer takes about 0.1 s.
_MBPS = 0.01


def _paced(**options: Any) -> Router:
    return attention_router(**({"pace_mbps": _MBPS} | options))


def _subscribe(router: Router, x: int, lifetime_s: float, seq: int, issuer: int = 11) -> None:
    body = Subscription(0, 1, 100, round(lifetime_s * 1e6), 10**12, parse_predicate(f"x = {x}"))
    received(router, 11, sub(issuer, seq, body))


def _xs(sent_: Iterable[tuple[object, Frame]]) -> list[Any]:
    return [frame.body.message["x"] for _, frame in sent_ if isinstance(frame.body, Publication)]


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
    router = _paced(**options)
    for seq, (x, lifetime_s) in enumerate(((0, 90.0), (1, 90.0), (2, 90.0), (2, 90.0), (3, 20.0))):
        _subscribe(router, x, lifetime_s, seq)
    now = 10.0
    for x in (0, 1, 2, 3):
        router.handle(Upload(1, Message({"x": x})), now)
    return router


def test_publications_leave_in_the_order_of_the_scheduler() -> None:
    assert _xs(_drained(_congested())) == [1, 2, 3]
    assert _xs(_drained(_congested(scheduler="cbf"))) == [3, 2, 1]


@pytest.mark.parametrize(("scheduler", "kept"), [("fifo", [1, 2]), ("cbf", [3, 2])])
def test_a_full_queue_drops_what_would_leave_last(scheduler: str, kept: list[int]) -> None:
    router = _congested(scheduler=scheduler, queue_publications=2)
    assert router.counters.dropped["queue_full"] == 1
    assert _xs(_drained(router)) == kept


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
    ((_, asked),) = sent(received(router, 12, sub(12), 10.0))
    assert asked.type is FrameType.SUB
    used_s = (14 + len(fragment(asked)[0])) * 8e-6 / _MBPS
    assert router.next_deadline() == pytest.approx(before + used_s)


def test_priority_passes_from_a_subscription_that_has_ended_to_the_rest() -> None:
    router = _congested(scheduler="cbf")
    # At second 25 the subscription of x = 3 is over: its publication is of no use, and leaves last.
    frames = sent(router.handle(Tick(), 25.0))
    for _ in range(3):
        due = router.next_deadline()
        assert due is not None
        frames += sent(router.handle(Tick(), max(25.0, due)))
    assert _xs(frames) == [2, 1, 3]


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
    router = _paced(scheduler="cbf")
    for issuer, seq, lifetime_s in ((11, 1, 20.0), (11, 2, 30.0), (21, 1, 40.0)):
        _subscribe(router, 1, lifetime_s, seq, issuer)
    for issuer, seq in ended:
        received(router, 11, frame_of(FrameType.OVERLOAD, issuer, seq, Overload(0)))
    # The second of two PUBs waits at interface 1.
    for seq in (1, 2):
        body = Publication(12, seq, 0, Message({"x": 1}), PublicationFlags.NONE, homes)
        received(router, 12, frame_of(FrameType.PUB, 12, seq, body), 1.0)
    (waiting,) = router.service._pacing._interfaces[1].queue  # type: ignore[attr-defined]
    assert waiting.deadlines == deadlines


def test_the_greatest_age_of_a_frame_does_not_grow_in_a_queue() -> None:
    router = _paced()
    for seq in (1, 2):
        body = Publication(11, seq, 2**64 - 1, Message({"x": 1}), PublicationFlags.NONE, (12,))
        received(router, 11, frame_of(FrameType.PUB, 11, seq, body), 10.0)
    ((_, waited),) = _drained(router)
    assert isinstance(waited.body, Publication)
    assert waited.body.age_us == 2**64 - 1
    assert fragment(waited)


def test_frames_of_a_retired_epoch_do_not_leave() -> None:
    router = _congested()
    waiting = router.service._pacing._interfaces[1].queue  # type: ignore[attr-defined]
    waiting[0].frame = replace(waiting[0].frame, epoch=77)
    assert _xs(_drained(router)) == [2, 3]
    assert router.counters.dropped["unknown_epoch"] == 1
    router.handle(Settle(), 99.0)
    assert router.idle
