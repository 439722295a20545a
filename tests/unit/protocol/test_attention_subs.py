"""SUBs and OVERLOADs of the attention-limited service: where they go, and what they carry."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from router.predicates import Message
from router.predicates.parser import parse_predicate
from router.protocol.events import Action, Tick
from router.protocol.options import RouterOptions
from router.protocol.services.attention import Index, Outcome, RoundEnded, relay
from router.protocol.services.attention.cache import Cache, Cached
from router.protocol.services.attention.dissemination import AttentionOptions, Transition, Trigger
from router.wire.frames import (
    Body,
    Commit,
    FrameType,
    Overload,
    Publication,
    PublicationFlags,
    Subscription,
    SubscriptionFlags,
)
from tests.support.attention_router import (
    SUB,
    attention_router,
    crowd,
    frame_of,
    register,
    state_of,
    sub,
    types,
    upload,
)
from tests.support.one_router import NEXT_TABLE, TABLE, control, new_router, received, sent


def _asked(actions: list[Action]) -> list[tuple[set[int], int]]:
    """The SUBs that are sent: interfaces, and publications that they ask for."""
    return [(to, frame.body.remaining) for to, frame in sent(actions) if isinstance(frame.body, Subscription)]


def test_a_sub_asks_every_child_for_all_that_is_lacking() -> None:
    _, actions = register(attention_router(), 5)
    assert _asked(actions) == [({1, 2, 3}, 5)]


def test_a_divided_sub_asks_every_child_for_a_share() -> None:
    """The shares of a home and of a router on the way add up to what is lacking; a share of 0 is not sent."""
    router = attention_router(fan_out="divided")
    assert _asked(register(router, 5)[1]) == [({1, 2}, 2), ({3}, 1)]
    assert _asked(register(router, 2)[1]) == [({1, 2}, 1)]
    upload(router, x=1)
    assert _asked(received(router, 11, sub(body=replace(SUB, remaining=4)))) == [({2}, 2), ({3}, 1)]


def test_an_overload_goes_where_the_sub_went() -> None:
    router = attention_router(fan_out="divided")
    _, actions = register(router, 1, predicate="x = 2")
    assert _asked(actions) == [({1}, 1)]
    # The publication fills the box.
    assert [(to, frame.type) for to, frame in sent(upload(router, x=2))] == [({1}, FrameType.OVERLOAD)]
    assert _asked(received(router, 11, sub(body=replace(SUB, remaining=1)))) == [({2}, 1)]
    actions = received(router, 11, frame_of(FrameType.OVERLOAD, 11, 1, Overload(0)))
    assert [(to, frame.type) for to, frame in sent(actions)] == [({2}, FrameType.OVERLOAD)]
    assert not any(entry.active for entry in state_of(router).table)


def test_the_end_of_a_lifetime_is_not_announced() -> None:
    """Entries of other routers end at their own deadlines."""
    router = attention_router()
    register(router, 5)
    actions = router.handle(Tick(), 10.0)
    assert [action.outcome for action in actions if isinstance(action, RoundEnded)] == [Outcome.EXPIRED]
    assert types(actions) == []


def test_a_sub_that_releases_many_publications_goes_on_with_the_lifetime_that_is_left() -> None:
    router = attention_router()
    crowd(router)
    for _ in range(3):
        upload(router, x=1)
    assert types(received(router, 11, sub(body=replace(SUB, remaining=100)))) == ["PUB", "PUB"]
    actions = router.handle(Tick(), 2.0)
    assert types(actions) == ["PUB", "SUB"]
    *_, (_, onward) = sent(actions)
    assert isinstance(onward.body, Subscription)
    assert (onward.body.lifetime_left_us, onward.body.remaining) == (8_000_000, 97)


@pytest.mark.parametrize("until", [0.0, 10.0])
def test_a_sub_that_ends_between_two_searches_goes_no_further(until: float) -> None:
    router = attention_router()
    crowd(router)
    for _ in range(9):
        upload(router, x=1)
    assert types(received(router, 11, sub(body=replace(SUB, remaining=100)))) == ["PUB", "PUB"]
    forwarded = router.counters.subs_forwarded
    if not until:
        received(router, 11, frame_of(FrameType.OVERLOAD, 11, 1, Overload(0)))
    assert types(router.handle(Tick(), until)) == []
    assert router.counters.subs_forwarded == forwarded


def test_a_sub_that_releases_many_publications_searches_the_cache_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches: list[object] = []
    select = Cache.select

    def counted(*arguments: Any) -> list[Cached]:
        searches.append(arguments)
        return select(*arguments)

    monkeypatch.setattr(Cache, "select", counted)
    monkeypatch.setattr(relay, "_COMPARED_AT_ONCE", 0)
    router = attention_router()
    for _ in range(20):
        upload(router, x=1)
    actions = received(router, 11, sub(body=replace(SUB, remaining=100)))
    while router.next_deadline() == 0.0:
        actions += router.handle(Tick(), 0.0)
    assert types(actions) == ["PUB"] * 20 + ["SUB"]
    bodies = [frame.body for _, frame in sent(actions)]
    seqs = [body.seq for body in bodies if isinstance(body, Publication)]
    assert seqs == sorted(seqs)
    assert len(searches) == 1


def test_a_neighbour_whose_subs_search_the_cache_too_often_is_refused_for_a_while() -> None:
    router = attention_router()
    for n in range(2_000):
        upload(router, x=n)
    heavy = replace(SUB, predicate=parse_predicate(" or ".join(f"other > {n}" for n in range(64))))

    def refused(number: int, issuer: int = 11, body: Subscription = heavy, now: float = 0.0) -> int:
        before = router.counters.dropped["sub_refused"]
        for seq in range(number):
            received(router, issuer, sub(issuer, 100 + seq, replace(body, nonce=next(nonces))), now)
        return router.counters.dropped["sub_refused"] - before

    nonces = count(1)
    assert 0 < refused(30) < 30
    # An equality finds its publications without a search, and other neighbours have their own allowance.
    light = replace(SUB, predicate=parse_predicate("x = 7"))
    assert refused(5, body=light) == 0
    assert refused(1, issuer=12) == 0
    assert refused(1) == 1
    assert refused(1, now=5.0) == 0


def test_what_leaves_the_cache_or_its_index_while_a_sub_waits_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay, "_COMPARED_AT_ONCE", 0)
    router = attention_router(cache_publications=9)
    for _ in range(9):
        upload(router, x=1)
    body = replace(SUB, remaining=100, flags=SubscriptionFlags.REFRESHED)
    actions = received(router, 11, sub(body=body))
    # Two uploads replace the two oldest publications: that which was sent, and the next.
    upload(router, x=3)
    upload(router, x=3)
    # A copy of the last is delivered to another home.
    *_, last = (cached for cached in state_of(router).cache if cached.message["x"] == 1)
    taken = Transition("", Trigger.UPLOAD, {}, Index.DPT)
    state_of(router).cache.move(last, taken, 0.0)
    while router.next_deadline() == 0.0:
        actions += router.handle(Tick(), 0.0)
    assert types(actions) == ["PUB"] * 7 + ["SUB"]


def test_a_new_round_cancels_both_the_push_and_the_search_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay, "_COMPARED_AT_ONCE", 0)
    router = attention_router(strategy="pdp")
    for _ in range(6):
        upload(router, x=1)
    assert types(received(router, 11, sub(body=replace(SUB, remaining=100)))) == ["PUB"]
    # The search goes on at 9 s, and so does the push, which falls due then.
    assert [types(router.handle(Tick(), 9.0)) for _ in range(2)] == [["PUB"], ["PUB"]]
    received(router, 11, sub(body=replace(SUB, round=1, nonce=2, remaining=100)), 9.0)
    (entry,) = state_of(router).table
    waiting = [timer for _, _, timer in state_of(router).searches._timers if timer.run is not None]
    assert len(waiting) == 2
    assert set(waiting) == {entry.push, entry.rest}


def test_an_entry_is_removed_within_a_second_of_its_deadline() -> None:
    """The second of two deadlines waits for the alarm that is a second after that of the first."""
    router = attention_router()
    for seq, lifetime_us in ((1, 10_000_000), (2, 10_250_000)):
        received(router, 11, sub(seq=seq, body=replace(SUB, lifetime_left_us=lifetime_us)))
    ticks = []
    while (at := router.next_deadline()) is not None:
        router.handle(Tick(), at)
        ticks.append((at, len(state_of(router).table)))
    assert ticks == [(10.0, 1), (11.0, 0)]


def test_a_home_asks_again_for_what_is_missing_before_the_deadline() -> None:
    router = attention_router(top_up_s=2.0)
    number, actions = register(router, 5)
    ((_, first),) = sent(actions)
    upload(router, 1.0, x=1)
    ((to, again),) = sent(router.handle(Tick(), 8.0))
    assert isinstance(first.body, Subscription)
    assert isinstance(again.body, Subscription)
    assert (to, again.seq) == ({1, 2, 3}, number)
    assert again.body == replace(
        first.body,
        nonce=again.body.nonce,
        remaining=4,
        lifetime_left_us=2_000_000,
        flags=SubscriptionFlags.TOP_UP,
    )
    assert again.body.nonce != first.body.nonce


@pytest.mark.parametrize(
    ("remote", "flags", "known", "frames"),
    [
        ("pending", SubscriptionFlags.NONE, False, ["SUB"]),
        ("all", SubscriptionFlags.NONE, False, ["PUB", "SUB"]),
        ("all", SubscriptionFlags.NONE, True, ["SUB"]),
        ("all", SubscriptionFlags.REFRESHED, False, ["SUB"]),
    ],
)
def test_a_relay_sends_a_new_subscription_what_others_had_and_names_it(
    remote: str, flags: SubscriptionFlags, known: bool, frames: list[str]
) -> None:
    router = attention_router(remote=remote)
    upload(router, x=1)
    received(router, 11, sub())
    (cached,) = state_of(router).cache
    assert cached.index is Index.OPT
    body = replace(SUB, flags=flags, offered=(cached.id,) if known else ())
    actions = received(router, 12, sub(issuer=12, body=body))
    assert types(actions) == frames
    *_, (_, onward) = sent(actions)
    assert isinstance(onward.body, Subscription)
    assert onward.body.offered == ((cached.id,) if known or "PUB" in frames else ())
    if "PUB" in frames:
        (_, pub), *_ = sent(actions)
        assert isinstance(pub.body, Publication)
        assert (pub.body.flags, pub.body.homes) == (PublicationFlags.NONE, (12,))


def test_a_home_that_asks_for_all_names_what_its_round_got() -> None:
    for remote in ("pending", "all"):
        router = attention_router(remote=remote)
        upload(router, x=1)
        (cached,) = state_of(router).cache
        ((_, asked),) = sent(register(router, 5)[1])
        assert isinstance(asked.body, Subscription)
        assert asked.body.offered == ((cached.id,) if remote == "all" else ())


def test_a_sub_waits_for_the_first_epoch() -> None:
    router = new_router(RouterOptions(service="attention", service_options=AttentionOptions()))
    assert types(register(router, 5)[1]) == []
    assert not router.idle
    control(router, FrameType.TABLE, 1, TABLE, 3.0)
    ((_, asked),) = [
        each
        for each in sent(control(router, FrameType.COMMIT, 1, Commit(1), 4.0))
        if each[1].type is FrameType.SUB
    ]
    assert isinstance(asked.body, Subscription)
    assert asked.body.lifetime_left_us == 6_000_000
    assert router.idle


def test_publications_for_a_home_without_a_tree_stay_pending() -> None:
    router = attention_router()
    received(router, 13, sub(issuer=13))
    control(router, FrameType.TABLE, 2, NEXT_TABLE)
    control(router, FrameType.COMMIT, 2, Commit(2))
    assert types(upload(router, 1.0, x=1)) == []
    assert [cached.index for cached in state_of(router).cache] == [Index.PPT]


@pytest.mark.parametrize("kind", [FrameType.SUB, FrameType.OVERLOAD, FrameType.PUB])
def test_a_frame_goes_no_further_than_its_hop_limit(kind: FrameType) -> None:
    bodies: dict[FrameType, Body] = {
        FrameType.SUB: SUB,
        FrameType.OVERLOAD: Overload(0),
        FrameType.PUB: Publication(21, 1, 0, Message({"x": 1}), PublicationFlags.NONE, (12,)),
    }
    router = attention_router()
    if kind is FrameType.OVERLOAD:
        received(router, 11, sub())
    assert types(received(router, 11, replace(frame_of(kind, 11, 1, bodies[kind]), hop_limit=1))) == []
    assert router.counters.dropped["hop_limit"] == 1
