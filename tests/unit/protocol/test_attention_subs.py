"""SUBs, OVERLOADs and options of the attention-limited service: what is sent, delivered and cached."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count, product

import pytest

from router.predicates import Message
from router.predicates.parser import parse_predicate
from router.protocol.core.router import Router
from router.protocol.events import Action, Tick
from router.protocol.options import RouterOptions
from router.protocol.services.attention import Index, IndexChanged, Outcome, Refresh, RoundEnded, relay
from router.protocol.services.attention.dissemination import (
    TRANSITIONS,
    AttentionOptions,
    StrategyName,
    Transition,
    Trigger,
    transition,
)
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
from tests.support.attention_network import AttentionNetwork
from tests.support.attention_router import (
    SUB,
    attention_router,
    crowd,
    delivered,
    frame_of,
    pubs,
    register,
    state_of,
    sub,
    subs,
    types,
    upload,
)
from tests.support.one_router import NEXT_TABLE, NODE, TABLE, control, new_router, received, sent
from tests.support.paths import DOCS
from tests.support.protocol_network import graph_of


def _asked(actions: list[Action]) -> list[tuple[set[int], int]]:
    """The SUBs that are sent: interfaces, and publications that they ask for."""
    return [(to, body.remaining) for to, body in subs(actions)]


def test_a_sub_asks_every_child_for_all_that_is_lacking_and_a_divided_sub_for_a_share() -> None:
    """The shares of a home and of a router on the way add up to what is lacking; a share of 0 is not sent."""
    assert _asked(register(attention_router(), 5)[1]) == [({1, 2, 3}, 5)]
    router = attention_router(fan_out="divided")
    assert _asked(register(router, 5)[1]) == [({1, 2}, 2), ({3}, 1)]
    assert _asked(register(router, 2)[1]) == [({1, 2}, 1)]
    upload(router, x=1)
    assert _asked(received(router, 11, sub(body=replace(SUB, remaining=4)))) == [({2}, 2), ({3}, 1)]


def _walks(actions: list[Action]) -> list[tuple[set[int], int, int]]:
    """The SUBs that are sent: interfaces, publications that they ask for, and the hop limit."""
    return [(to, frame.body.remaining, frame.hop_limit) for to, frame in sent(actions)]  # type: ignore[union-attr]


def test_a_sequential_sub_asks_one_child_after_the_other_for_what_is_left() -> None:
    router = attention_router(fan_out="sequential")
    number, actions = register(router, 5)
    neighbours, asked = {1: 11, 2: 12, 3: 13}, []
    for lacking in (5, 4, 4):
        ((to, frame),) = sent(actions)
        (child,) = to
        asked.append(child)
        assert (frame.seq, frame.body.remaining) == (number, lacking)  # type: ignore[union-attr]
        if lacking == 5:
            upload(router, x=1)
        actions = received(router, neighbours[child], frame)
        # A copy of what came back asks nobody.
        assert types(received(router, neighbours[child], frame)) == []
    assert (sorted(asked), types(actions)) == ([1, 2, 3], [])
    # The last copy came when the walk was over, as a SUB of an earlier round or another nonce may.
    assert router.counters.dropped == {"own_frame": 2, "sub_old": 1}
    # The SUB has come back: it is not repeated.
    assert types(router.handle(Tick(), 9.9)) == []


def test_a_sequential_sub_that_comes_back_too_late_is_old_at_the_home_and_a_forged_one_is_not() -> None:
    router = attention_router(fan_out="sequential")
    _, actions = register(router, 5, lifetime_s=64.0)
    ((to, first),) = sent(actions)
    neighbour = 10 + min(to)
    ((_, again),) = sent(router.handle(Tick(), 32.0))
    assert again.body != first.body
    assert types(received(router, neighbour, first, 33.0)) == []
    assert router.counters.dropped == {"sub_old": 1}
    router.handle(Tick(), 64.0)
    assert types(received(router, neighbour, again, 65.0)) == []
    assert router.counters.dropped == {"sub_old": 2}
    assert isinstance(again.body, Subscription)
    for forged in (replace(again, seq=again.seq + 1), replace(again, body=replace(again.body, round=1))):
        assert types(received(router, neighbour, forged, 65.0)) == []
    assert router.counters.dropped == {"sub_old": 2, "own_frame": 2}


def test_a_sequential_sub_that_comes_back_too_late_is_old_at_a_relay() -> None:
    router = attention_router(fan_out="sequential")
    ((to, first),) = sent(received(router, 11, sub()))
    received(router, 11, sub(body=replace(SUB, nonce=SUB.nonce + 1)))
    assert types(received(router, 10 + min(to), first)) == []
    received(router, 11, sub(body=replace(SUB, round=1, nonce=SUB.nonce + 2)))
    assert types(received(router, 10 + min(to), first)) == []
    # The entry ends by its own timer, before those of the children.
    assert types(received(router, 10 + min(to), first, 10.0)) == []
    assert router.counters.dropped == {"sub_old": 3}
    # No SUB of this home came.
    issuer, child = (12, 11) if min(to) != 1 else (13, 12)
    assert types(received(router, child, sub(issuer), 10.0)) == []
    assert router.counters.dropped["reverse_path"] == 1


def test_a_home_does_not_repeat_a_sequential_sub_that_goes_on() -> None:
    router = attention_router(fan_out="sequential")
    ((to, frame),) = sent(register(router, 5, lifetime_s=64.0)[1])
    assert types(received(router, 10 + min(to), frame, 31.0)) == ["SUB"]
    assert types(router.handle(Tick(), 32.0)) == []
    # No child has sent it back since.
    assert types(router.handle(Tick(), 48.0)) == ["SUB"]


@pytest.mark.parametrize(("counts", "lacking"), [(False, 5), (True, 7)])
def test_what_a_router_pushed_and_what_its_child_offered_count_both(counts: bool, lacking: int) -> None:
    """Of 10, 3 were pushed and 2 offered; of publications that pass nothing says who offered them."""
    router = attention_router(fan_out="sequential", strategy="pdp", beta_s=9.0, count_in_transit=counts)
    ((to, onward),) = sent(received(router, 11, sub(body=replace(SUB, remaining=10))))
    for _ in range(3):
        assert types(upload(router, 2.0, x=1)) == ["PUB"]
    back = replace(onward, body=replace(SUB, remaining=8))
    assert [asked for _, asked, _ in _walks(received(router, 10 + min(to), back, 2.0))] == [lacking]


def test_a_router_sends_a_sequential_sub_back_after_its_last_child() -> None:
    router = attention_router(fan_out="sequential")
    upload(router, x=1)
    asking = sub(body=replace(SUB, nonce=2, remaining=4))
    _, (to, onward) = sent(received(router, 11, asking))
    assert (to, onward.hop_limit, onward.body) == ({2}, 8, replace(SUB, nonce=2, remaining=3))
    back = replace(onward, body=replace(SUB, nonce=2, remaining=2))
    for wrong in (replace(SUB, nonce=3, remaining=2), replace(SUB, nonce=2, round=1, remaining=2)):
        assert received(router, 12, replace(onward, body=wrong)) == []
    assert received(router, 13, back) == []
    assert _walks(received(router, 12, back)) == [({3}, 2, 8)]
    # A child cannot make a subscription ask for more.
    many = replace(back, body=replace(SUB, nonce=2, remaining=2**32 - 1))
    assert _walks(received(router, 13, many)) == [({1}, 2, 9)]
    assert received(router, 13, many) == []
    assert router.counters.dropped == {"reverse_path": 3, "sub_old": 1}
    assert (router.counters.subs_received, router.counters.subs_forwarded) == (7, 3)


def test_a_sequential_sub_brings_what_it_was_offered_back_and_a_router_does_not_keep_it() -> None:
    router = attention_router(fan_out="sequential", remote="all")
    asking = sub(body=replace(SUB, nonce=2, offered=((11, 1), (11, 2))))
    ((_, onward),) = sent(received(router, 11, asking))
    assert onward.body == asking.body
    more = replace(SUB, nonce=2, offered=((11, 1), (11, 2), (12, 1)))
    (entry,) = state_of(router).table
    assert entry.walk is not None
    assert entry.walk.frame.body == replace(SUB, nonce=2)
    ((to, following),) = sent(received(router, 12, replace(onward, body=more)))
    assert (to, following.body) == ({3}, more)


@pytest.mark.parametrize("why", ["leaf", "hop_limit", "sub_refused"])
def test_a_router_that_cannot_serve_a_sequential_sub_or_send_it_on_sends_it_back(why: str) -> None:
    router = attention_router(fan_out="sequential", subscriptions=1)
    if why == "sub_refused":
        register(router, 1)
    issuer, hops = 13 if why == "leaf" else 11, 1 if why == "hop_limit" else 9
    frame = replace(sub(issuer), hop_limit=hops)
    assert _walks(received(router, issuer, frame)) == [({3 if why == "leaf" else 1}, 2, hops)]
    assert router.counters.dropped == ({} if why == "leaf" else {why: 1})


@pytest.mark.parametrize("late_s", [0.0, 1e-5])
def test_a_home_repeats_a_sequential_sub_that_does_not_come_back(late_s: float) -> None:
    """It may be lost, or the publications that it asked for: the home has up to seven SUBs on the way.

    Ticks of live routers are late.
    """
    router = attention_router(fan_out="sequential")
    _, actions = register(router, 5, lifetime_s=64.0)
    nonces, times, now = {subs(actions)[0][1].nonce}, [], 0.0
    while (due := router.next_deadline()) is not None and due < 64.0:
        now = due + late_s
        for _, body in subs(router.handle(Tick(), now)):
            nonces.add(body.nonce)
            times.append(now)
            assert body.flags == SubscriptionFlags.TOP_UP
    assert times == pytest.approx([32.0, 48.0, 56.0, 60.0, 62.0, 63.0], abs=1e-3)
    assert len(nonces) == 7


def test_a_sequential_sub_of_a_former_epoch_is_not_taken_back_but_repeated() -> None:
    router = attention_router(fan_out="sequential")
    ((to, frame),) = sent(register(router, 5)[1])
    control(router, FrameType.TABLE, 2, NEXT_TABLE)
    control(router, FrameType.COMMIT, 2, Commit(2))
    assert types(received(router, 10 + min(to), frame)) == []
    ((_, again),) = sent(router.handle(Tick(), 5.0))
    assert (again.epoch, again.type) == (2, FrameType.SUB)


@pytest.mark.parametrize("strategy", ["eon", "pdp"])
def test_a_satisfied_subscription_ends_its_sequential_sub(strategy: StrategyName) -> None:
    router = attention_router(fan_out="sequential", strategy=strategy)
    _, actions = register(router, 1, predicate="x = 2")
    ((to, frame),) = sent(actions)
    overloads = [(to, FrameType.OVERLOAD)] if strategy == "eon" else []
    assert [(at, each.type) for at, each in sent(upload(router, x=2))] == overloads
    assert types(received(router, 10 + min(to), frame)) == []
    # At a router on the way, the notification ends what its child sends back.
    ((_, onward),) = sent(received(router, 11, sub()))
    received(router, 11, frame_of(FrameType.OVERLOAD, 11, 1, Overload(0)))
    child = 12 if SUB.nonce % 2 == 0 else 13
    assert types(received(router, child, onward)) == []


def test_sequential_subs_visit_each_router_of_a_tree_once_and_stop_where_they_are_satisfied() -> None:
    """Of a tree 1 - 0 - (2 - (3, 4), 5): a SUB down each link and back, unless a router has the rest."""
    graph = graph_of([(0, 1, 1), (0, 2, 1), (2, 3, 1), (2, 4, 1), (0, 5, 1)])
    options = AttentionOptions(fan_out="sequential")
    network = AttentionNetwork(graph, options, 1)
    network.new_epoch()
    network.settle()
    network.register(1, "x = 1", 2, 50.0, 100.0)
    network.settle()
    links = [*graph.edges, *((v, u) for u, v in graph.edges)]
    assert [network.frames[u, v, FrameType.SUB] for u, v in links] == [1] * 10
    for node in (3, 4, 5):
        network.publish(node, x=2)
    network.register(1, "x = 2", 1, 50.0, 100.0)
    network.settle()
    # The publication of the first router with one, and no more, has left it.
    left = [node for node in (3, 4, 5) if network.state(node).cache.sizes[Index.PPT]]
    assert len(left) == 2


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
    ((_, onward),) = subs(actions)
    assert (onward.lifetime_left_us, onward.remaining) == (8_000_000, 97)


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


def test_what_leaves_cache_or_index_while_a_sub_waits_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_new_round_cancels_push_and_search_of_the_round_before(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_home_asks_again_for_what_is_missing_before_the_deadline() -> None:
    router = attention_router(top_up_s=2.0)
    number, actions = register(router, 5)
    ((_, first),) = subs(actions)
    upload(router, 1.0, x=1)
    actions = router.handle(Tick(), 8.0)
    ((to, again),) = subs(actions)
    assert (to, [frame.seq for _, frame in sent(actions)]) == ({1, 2, 3}, [number])
    assert again == replace(
        first, nonce=again.nonce, remaining=4, lifetime_left_us=2_000_000, flags=SubscriptionFlags.TOP_UP
    )
    assert again.nonce != first.nonce


@pytest.mark.parametrize(
    ("remote", "flags", "known", "frames"),
    [
        ("pending", SubscriptionFlags.NONE, False, ["SUB"]),
        ("all", SubscriptionFlags.NONE, False, ["PUB", "SUB"]),
        ("all", SubscriptionFlags.NONE, True, ["SUB"]),
        ("all", SubscriptionFlags.REFRESHED, False, ["SUB"]),
    ],
)
def test_a_router_sends_a_new_subscription_what_others_had_and_names_it(
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
    ((_, onward),) = subs(actions)
    assert onward.offered == ((cached.id,) if known or "PUB" in frames else ())
    for pub in pubs(actions):
        assert (pub.flags, pub.homes) == (PublicationFlags.NONE, (12,))


def test_a_home_that_asks_for_all_names_what_its_round_got() -> None:
    for remote in ("pending", "all"):
        router = attention_router(remote=remote)
        upload(router, x=1)
        (cached,) = state_of(router).cache
        ((_, asked),) = subs(register(router, 5)[1])
        assert asked.offered == ((cached.id,) if remote == "all" else ())


def test_a_sub_waits_for_the_first_epoch() -> None:
    router = new_router(RouterOptions(service="attention", service_options=AttentionOptions()))
    assert types(register(router, 5)[1]) == []
    assert not router.idle
    control(router, FrameType.TABLE, 1, TABLE, 3.0)
    ((_, asked),) = subs(control(router, FrameType.COMMIT, 1, Commit(1), 4.0))
    assert asked.lifetime_left_us == 6_000_000
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


def _lasting(remaining: int, freshness_s: float = 100.0) -> Subscription:
    """The body of a SUB of 90 s."""
    return Subscription(0, 1, remaining, 90_000_000, round(freshness_s * 1e6), SUB.predicate)


def _pub(router: Router, seq: int, homes: tuple[int, ...], flags: PublicationFlags) -> list[Action]:
    """A PUB of the router of node 11 with a publication of 2 s."""
    body = Publication(11, seq, 2_000_000, Message({"x": 1}), flags, homes)
    return received(router, 11, frame_of(FrameType.PUB, 11, seq, body))


# Ages.


def test_a_publication_that_is_too_old_takes_the_place_of_no_other() -> None:
    """At a router that a SUB reaches, which sends the other with its age, and at the home."""
    asked, home = attention_router(), attention_router()
    for router in (asked, home):
        upload(router, 0.0, x=1)
        upload(router, 4.0, x=1)
    actions = received(asked, 11, sub(body=_lasting(1, freshness_s=3.0)), 5.0)
    assert [pub.age_us for pub in pubs(actions)] == [1_000_000]
    assert delivered(register(home, 1, freshness_s=3.0, now=5.0)[1]) == [2]


def test_a_pending_publication_goes_to_no_home_for_which_it_is_too_old() -> None:
    router = attention_router(strategy="pdp")
    received(router, 11, sub(body=_lasting(2, freshness_s=3.0)))
    received(router, 12, sub(issuer=12, body=_lasting(2)))
    upload(router, x=1)
    actions = received(router, 13, sub(issuer=13, body=_lasting(2)), 5.0)
    assert [pub.homes for pub in pubs(actions)] == [(12,), (13,)]


# Strategies, and what routers count.


def test_pdp_sends_an_upload_at_once_after_the_time_of_the_push() -> None:
    router = attention_router(strategy="pdp", beta_s=1.0)
    received(router, 11, sub())
    router.handle(Tick(), 9.0)
    assert types(upload(router, 9.5, x=1)) == ["PUB"]
    assert [cached.index for cached in state_of(router).cache] == [Index.OPT]


@pytest.mark.parametrize(("counts", "pushed", "after_two"), [(False, 3, 1), (True, 2, 0)])
def test_pushes_and_publications_that_pass_count_against_a_subscription_if_the_option_says_so(
    counts: bool, pushed: int, after_two: int
) -> None:
    router = attention_router(count_in_transit=counts)
    received(router, 11, sub())
    assert sum(len(types(upload(router, x=1))) for _ in range(3)) == pushed
    router = attention_router(count_in_transit=counts)
    received(router, 12, sub(issuer=12))
    for seq in (1, 2):
        assert types(_pub(router, seq, (12,), PublicationFlags.NONE)) == ["PUB"]
    assert len(types(upload(router, x=1))) == after_two


@pytest.mark.parametrize("flags", [PublicationFlags.NONE, PublicationFlags.PENDING])
def test_a_publication_that_nobody_takes_at_its_home_is_counted_as_overload(flags: PublicationFlags) -> None:
    router = attention_router()
    _pub(router, 1, (12,), flags)
    assert router.counters.publications_overload == 0
    register(router, 1)
    _pub(router, 2, (NODE,), flags)
    assert router.counters.publications_overload == 0
    _pub(router, 3, (NODE,), flags)
    assert router.counters.publications_overload == 1


@pytest.mark.parametrize("index", [Index.PPT, Index.DPT])
@pytest.mark.parametrize(("history", "got"), [("none", []), ("exact", [2])])
def test_a_refreshed_subscription_takes_what_it_did_not_have_if_the_home_knows(
    history: str, got: list[int], index: Index
) -> None:
    router = attention_router(history=history)
    number, _ = register(router, 1)
    upload(router, x=1)
    upload(router, x=1)
    assert delivered(register(router, 2)[1]) == [1, 2]
    if index is Index.DPT:
        received(router, 11, sub())
    assert {cached.index for cached in state_of(router).cache} == {index}
    assert delivered(router.handle(Refresh(1, number), 1.0)) == got


# The cache.


@pytest.mark.parametrize(
    ("flushing", "replaced_by", "cause"),
    [("off", "upload", "evicted"), ("neighbour", "upload", "flushed"), ("neighbour", "copy", "evicted")],
)
def test_what_leaves_a_cache_is_recorded(flushing: str, replaced_by: str, cause: str) -> None:
    router = attention_router(cache_publications=1, record_caches=True, flushing=flushing)
    upload(router, x=1)
    (first,) = state_of(router).cache
    if replaced_by == "upload":
        actions = upload(router, 1.0, x=1)
    else:
        copy = Publication(21, 1, 0, Message({"x": 1}))
        actions = received(router, 11, frame_of(FrameType.FLUSH, 11, 1, copy), 1.0)
    assert types(actions) == (["FLUSH"] if cause == "flushed" else [])
    entered, left = (each for each in actions if isinstance(each, IndexChanged))
    assert (entered.before, left.after) == (None, None)
    assert ((left.source, left.seq), left.before, left.cause) == (first.id, Index.PPT, cause)


def test_every_row_of_the_table_applies_and_the_page_has_its_index() -> None:
    used = {
        id(transition(trigger, *facts))
        for trigger in Trigger
        for facts in product((False, True), repeat=len(trigger.value))
    }
    assert used == {id(row) for row in TRANSITIONS}
    page = (DOCS / "explanation" / "attention.md").read_text(encoding="utf-8")
    for row in TRANSITIONS:
        (index,) = re.findall(rf"^\| {row.name} \|.*\| (.*) \|$", page, re.MULTILINE)
        assert ("none" if row.after is None else row.after.name) in index
        assert not row.dispatched or "DF" in index
