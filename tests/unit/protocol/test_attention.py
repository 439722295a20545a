"""The attention-limited service at one router: caches, budgets, requests, recordings, frames of all kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from router.predicates import Message
from router.predicates.parser import parse_predicate
from router.protocol.events import ApplicationGone, Event, FrameReceived, Refused, Tick
from router.protocol.options import RouterOptions
from router.protocol.services import RequestError
from router.protocol.services.attention import Index, Refresh, Register, Registered, Unregister, Upload
from router.protocol.services.attention.cache import Cache, Cached
from router.protocol.services.attention.dissemination import AttentionOptions
from router.protocol.services.attention.subscriptions import MOST_OF_AN_APPLICATION
from router.recording import describe_frame
from router.wire.attention import MAX_OFFERED, MAX_SUB_BYTES, MAX_SUB_PREDICATE_BYTES
from router.wire.codec import forwarded_frame
from router.wire.frames import (
    EncodedPredicate,
    Frame,
    FrameType,
    Overload,
    Publication,
    PublicationFlags,
    Subscription,
    SubscriptionFlags,
)
from router.wire.header import HEADER_LENGTH, decode_header
from router.wire.predicate import encode_predicate
from tests.support.attention_network import ANY_OPTIONS
from tests.support.attention_router import (
    SUB,
    attention_router,
    delivered,
    frame_of,
    pubs,
    put,
    register,
    state_of,
    sub,
    subs,
    types,
    upload,
)
from tests.support.one_router import INCARNATION, NODE, received, sent, set_up
from tests.support.whole_frames import decode, encode


def _cache(*publications: tuple[float, float, Index, Sequence[float]], **options: Any) -> Cache:
    """A cache with publications, numbered from 0: uploaded at, cached at, index, used at."""
    cache = Cache(AttentionOptions(**options))
    for number, (at, cached_at, index, uses) in enumerate(publications):
        cached = Cached((0, number), Message({"x": 1}), at, cached_at)
        put(cache, cached, index)
        for now in uses:
            cache.used(cached, now)
    return cache


def _selected(cache: Cache, text: str = "x = 1", most: int = 50, oldest_at: float = 0.0) -> list[int]:
    """The numbers of the publications that are selected."""
    found = cache.select(parse_predicate(text), most, frozenset(Index), oldest_at, lambda _: True)
    return [cached.id[1] for cached in found]


def test_a_pending_publication_goes_once_to_a_subscription_that_passes() -> None:
    router = attention_router()
    assert types(upload(router, x=1)) == []
    actions = received(router, 11, sub())
    assert [to for to, _ in sent(actions)] == [{1}, {2, 3}]
    ((pub,), ((_, onward),)) = pubs(actions), subs(actions)
    assert (pub.homes, pub.flags, onward.remaining) == ((11,), PublicationFlags.PENDING, 1)
    # A second subscription of the same home does not get it: it is in OPT now.
    assert types(received(router, 11, sub(seq=2))) == ["SUB"]
    assert [cached.index for cached in state_of(router).cache] == [Index.OPT]


def test_copies_and_old_rounds_of_a_sub_are_dropped() -> None:
    router = attention_router()
    newer = replace(SUB, round=1, nonce=7, flags=SubscriptionFlags.REFRESHED)
    received(router, 11, sub(body=newer))
    assert received(router, 11, sub(body=newer)) == []
    assert received(router, 11, sub()) == []
    assert router.counters.dropped["sub_old"] == 2


def test_an_overload_ends_a_round_and_leaves_a_newer_one() -> None:
    router = attention_router()
    received(router, 11, sub())
    assert types(upload(router, x=1)) == ["PUB"]
    assert types(received(router, 11, frame_of(FrameType.OVERLOAD, 11, 1, Overload(0)))) == ["OVERLOAD"]
    assert types(upload(router, x=1)) == []
    newer = replace(SUB, round=1, nonce=7, remaining=5, flags=SubscriptionFlags.REFRESHED)
    received(router, 11, sub(body=newer))
    assert received(router, 11, frame_of(FrameType.OVERLOAD, 11, 1, Overload(0))) == []
    assert router.counters.dropped["overload_late"] == 1
    assert types(upload(router, x=1)) == ["PUB"]


def test_pdp_pushes_before_the_deadline_and_no_more_than_is_lacking() -> None:
    router = attention_router(strategy="pdp", beta_s=1.0)
    received(router, 11, sub())
    for _ in range(3):
        assert types(upload(router, x=1)) == []
    assert router.next_deadline() == 9.0
    assert types(router.handle(Tick(), 9.0)) == ["PUB", "PUB"]
    assert types(router.handle(Tick(), 10.0)) == []
    assert not len(state_of(router).table)


def test_a_second_copy_of_a_pub_is_dropped_and_homes_that_were_served_are_left_out() -> None:
    router = attention_router(en_route=True)
    body = Publication(21, 1, 0, Message({"x": 1}), PublicationFlags.PENDING, (12, 13))
    actions = received(router, 11, frame_of(FrameType.PUB, 21, 1, body))
    # Node 13 is not in the subtree of this tree.
    assert ([to for to, _ in sent(actions)], [pub.homes for pub in pubs(actions)]) == ([{2}], [(12,)])
    assert received(router, 11, frame_of(FrameType.PUB, 21, 1, body)) == []
    assert received(router, 11, frame_of(FrameType.PUB, 21, 2, body)) == []
    assert router.counters.dropped["pub_duplicate"] == 1
    assert router.counters.dropped["home_served"] == 1
    # A home that asks again may need it again.
    received(router, 12, sub(issuer=12))
    assert len(sent(received(router, 11, frame_of(FrameType.PUB, 21, 3, body)))) == 1


def test_a_flushed_copy_is_cached_if_there_is_room_or_a_worse_one() -> None:
    router = attention_router(flushing="neighbour", cache_publications=2)

    def flush(seq: int, age_us: int) -> list[str]:
        body = Publication(21, seq, age_us, Message({"x": 1}))
        return types(received(router, 11, frame_of(FrameType.FLUSH, 11, seq, body), 10.0))

    assert [flush(1, 5_000_000), flush(2, 3_000_000)] == [[], []]
    # The oldest is replaced first: this one would be, and the next one replaces the first one.
    assert [flush(3, 9_000_000), flush(4, 1_000_000)] == [[], []]
    cached = {each.id[1]: each.index for each in state_of(router).cache}
    assert cached == {2: Index.DPT, 4: Index.DPT}

    # Who got it is not known: a refreshed subscription takes none, a new one does.
    def taken(refreshed: bool) -> list[int]:
        return delivered(register(router, 5, 5.0, 60.0, 10.0, refreshed=refreshed)[1])

    assert [taken(True), taken(False)] == [[], [2, 4]]


@pytest.mark.parametrize(("flushing", "to"), [("neighbour", []), ("network", [({2, 3}, 8)])])
def test_a_flushed_copy_goes_on_once_where_the_whole_network_is_flooded(
    flushing: str, to: list[tuple[set[int], int]]
) -> None:
    router = attention_router(flushing=flushing, cache_publications=1)
    copy = frame_of(FrameType.FLUSH, 21, 1, Publication(21, 1, 0, Message({"x": 1})))
    went = [(interfaces, frame.hop_limit) for interfaces, frame in sent(received(router, 11, copy))]
    assert went == to
    assert received(router, 12, copy) == []
    # Nor does a copy of what this router flushed itself, or one without a hop left.
    upload(router, x=1)
    received(router, 11, sub())
    (_, own), *_ = (each for each in sent(upload(router, x=1)) if each[1].type is FrameType.FLUSH)
    assert types(received(router, 12, own)) == []
    last = frame_of(FrameType.FLUSH, 21, 2, Publication(21, 2, 0, Message({"x": 1})))
    assert types(received(router, 11, replace(last, hop_limit=1))) == []


@pytest.mark.parametrize("kind", [FrameType.PUB, FrameType.FLUSH])
def test_no_frame_takes_the_identifier_of_an_upload_that_is_still_to_come(kind: FrameType) -> None:
    router = attention_router(cache_publications=2)
    upload(router, 0.0, x=1)
    homes = (NODE,) if kind is FrameType.PUB else ()
    for seq in (INCARNATION << 32 | 2, (INCARNATION + 1) << 32 | 1):
        flags = PublicationFlags.PENDING | PublicationFlags.CUSTODY
        body = Publication(NODE, seq, 0, Message({"x": 1}), flags, homes)
        assert received(router, 11, frame_of(kind, 11, seq, body)) == []
    assert router.counters.dropped["publication_forged"] == 2
    for at in range(1, 6):
        upload(router, float(at), x=1)
    assert len(state_of(router).cache) == 2


def test_policies_say_which_publication_leaves_first() -> None:
    publications = (
        (5.0, 10.0, Index.PPT, ()),
        (1.0, 11.0, Index.DPT, (14.0,)),
        (9.0, 12.0, Index.OPT, ()),
        (7.0, 13.0, Index.PPT, ()),
    )

    def left(replacement: str, types: str = "ignored") -> int:
        ways = {"replacement": replacement, "replacement_types": types}
        (evicted,) = _cache(*publications, cache_publications=3, **ways).evict()
        return evicted.id[1]

    assert [left(name) for name in ("lf", "mf", "lru", "mru", "mfu")] == [1, 2, 0, 1, 1]
    assert [left("mf", types) for types in ("pending-first", "disseminated-first")] == [3, 1]


@pytest.mark.parametrize("text", ["x = 1 or y = 2 or x > 0", "x = 1 and y < 9 or y = 2 and y > 1"])
def test_a_publication_that_several_filters_select_is_selected_once(text: str) -> None:
    cache = Cache(AttentionOptions())
    for number, attributes in enumerate(({"x": 1, "y": 2}, {"x": 1, "y": 0}, {"y": 2}, {"x": 0, "y": 0})):
        put(cache, Cached((0, number), Message(attributes), 0.0, 0.0), Index.OPT)
    assert _selected(cache, text) == [0, 1, 2]


def test_selection_by_index_comes_before_the_policy() -> None:
    publications = [(-float(n), 0.0, index, ()) for n, index in enumerate((Index.PPT, Index.OPT, Index.DPT))]
    cache = _cache(*publications, selection="mf", selection_types=True)
    assert _selected(cache, most=2, oldest_at=-10.0) == [2, 1]


def test_policies_say_which_publication_is_delivered_first() -> None:
    used = {5.0: [13.0], 9.0: [], 1.0: [11.0, 12.0]}
    publications = [(at, 10.0, Index.DPT, uses) for at, uses in used.items()]
    orders = {"lf": [2, 0, 1], "mf": [1, 0, 2], "lru": [1, 2, 0], "mru": [0, 2, 1], "mfu": [2, 0, 1]}
    found = {name: _selected(_cache(*publications, selection=name), most=3) for name in orders}
    assert found == orders


def test_an_application_that_leaves_ends_no_more_subscriptions_than_it_may_have() -> None:
    router = attention_router()
    one = Register(1, parse_predicate("x = 1"), 1, 5.0, 5.0)
    for _ in range(MOST_OF_AN_APPLICATION):
        assert isinstance(router.handle(one, 0.0)[0], Registered)
    assert router.handle(one, 0.0) == [Refused(1, "subscriptions of the application: at most 1024")]
    assert isinstance(router.handle(replace(one, app=2), 0.0)[0], Registered)
    ended = Counter(type(action).__name__ for action in router.handle(ApplicationGone(1), 1.0))
    assert ended == dict.fromkeys(("RoundEnded", "Send", "Unregistered"), MOST_OF_AN_APPLICATION)
    assert isinstance(router.handle(one, 1.0)[0], Registered)


def test_a_subscription_beyond_the_greatest_weight_is_refused() -> None:
    router = attention_router()
    predicate = parse_predicate(" or ".join(f"x < {n}" for n in range(65)))
    assert router.handle(Register(1, predicate, 1, 9.0, 9.0), 0.0) == [
        Refused(1, "predicate: filters and constraints: 130; at most 128")
    ]
    assert received(router, 11, sub(body=replace(SUB, predicate=predicate))) == []
    assert router.counters.dropped["sub_refused"] == 1


def test_a_router_keeps_no_more_subscriptions_than_it_may() -> None:
    router = attention_router(subscriptions=2)
    received(router, 11, sub(seq=1))
    router.handle(Register(1, parse_predicate("x = 1"), 1, 5.0, 5.0), 0.0)
    assert received(router, 11, sub(seq=2)) == []
    (refused,) = router.handle(Register(1, parse_predicate("x = 1"), 1, 5.0, 5.0), 0.0)
    assert refused == Refused(1, "the router keeps no more subscriptions")
    assert router.counters.dropped["sub_refused"] == 1
    heavy = Subscription(0, 1, 1, 10_000_000, 1, parse_predicate(" or ".join(f"x = {n}" for n in range(50))))
    light = attention_router(subscriptions_weight=60)
    assert received(light, 11, sub(body=heavy)) == []
    assert light.counters.dropped["sub_refused"] == 1
    # A subscription does not become a heavy one, and applications have the same limits.
    received(light, 11, sub(seq=2))
    assert received(light, 11, sub(seq=2, body=replace(heavy, round=1))) == []
    (answer,) = light.handle(Register(1, heavy.predicate, 1, 5.0, 5.0), 0.0)
    assert isinstance(answer, Refused)
    # The room is free again after the deadlines.
    router.handle(Tick(), 11.0)
    router.handle(ApplicationGone(1), 11.0)
    assert types(received(router, 11, sub(seq=3), 11.0)) == ["SUB"]


def test_the_memory_of_a_subscription_does_not_grow_with_its_subs() -> None:
    router = attention_router()
    subs = [replace(SUB, nonce=nonce, lifetime_left_us=10**15) for nonce in range(1000)]
    for body in subs:
        received(router, 11, sub(body=body))
    state = state_of(router)
    (entry,) = state.table
    assert len(entry.nonces) == 8
    assert router.counters.dropped["sub_refused"] == 992
    # The next round is another matter, and the timers of former ones are forgotten.
    for body in subs:
        received(router, 11, sub(body=replace(body, round=body.nonce + 1)))
    (entry,) = state.table
    assert entry.round == 1000
    assert len(state.timers) + len(state.table._timers) < 100
    assert router.next_deadline() == 1e9


def test_a_subscription_that_is_withdrawn_leaves_no_timer_until_its_deadline() -> None:
    router = attention_router()
    for _ in range(1000):
        answer, *_ = router.handle(Register(1, parse_predicate("x = 1"), 1, 1e9, 5.0), 0.0)
        assert isinstance(answer, Registered)
        router.handle(Unregister(1, answer.subscription), 0.0)
    assert len(state_of(router).timers) < 100


#: A request that can be served.
_REGISTER = {"predicate": "x = 1", "max": 1, "lifetime_s": 5, "freshness_s": 5}


@pytest.mark.parametrize(
    ("op", "request_", "error"),
    [
        ("register", _REGISTER | {"predicate": None}, "predicate: expected a text, got None"),
        ("register", _REGISTER | {"max": True}, "max: expected an integer from 1 to"),
        ("register", _REGISTER | {"lifetime_s": 0}, "lifetime_s: expected a number above"),
        ("register", _REGISTER | {"refreshed": 1}, "refreshed: expected true or false"),
        ("refresh", {"subscription": 7}, "subscription: 7 is none of this application's"),
        ("unregister", {"subscription": -1}, "subscription: expected an integer from 0"),
        ("publish", {}, "expected either 'message' or 'attributes'"),
    ],
)
def test_a_request_that_cannot_be_served_says_why(op: str, request_: dict[str, Any], error: str) -> None:
    router = attention_router()
    command = router.session(1).commands()[op]
    with pytest.raises(ValueError, match=error):
        command(request_, lambda event: router.handle(event, 0.0))


def test_a_round_that_is_not_over_cannot_be_refreshed() -> None:
    router = attention_router()
    commands: Mapping[str, Any] = router.session(1).commands()
    answer, _ = commands["register"](_REGISTER, lambda event: router.handle(event, 0.0))
    with pytest.raises(RequestError, match="round 0 is not over"):
        commands["refresh"](answer, lambda event: router.handle(event, 1.0))
    router.handle(Tick(), 5.0)
    again, _ = commands["refresh"](answer, lambda event: router.handle(event, 5.0))
    assert again == {"ok": True, "subscription": answer["subscription"], "round": 1}
    assert commands["unregister"](answer, lambda event: router.handle(event, 6.0))[0] == {"ok": True}


_U32 = st.integers(0, 2**32 - 1)
_U64 = st.integers(0, 2**64 - 1)
_SMALL = st.integers(0, 3)
_NODES = st.sampled_from([NODE, 11, 12, 13, 21, 22, 2**32 - 1])
_PREDICATES = st.sampled_from(["x = 1", "x > 0 or y = 2", "none", "x any integer"]).map(parse_predicate)
_MESSAGES = st.sampled_from([{}, {"x": 1}, {"x": 2, "y": 2}]).map(Message)
#: Numbers that this router gave, or will give: of its incarnation, the one before and the next.
_NEAR = st.builds(
    lambda half, count: half << 32 | count, st.integers(INCARNATION - 1, INCARNATION + 1), _SMALL
)
_IDS = st.tuples(_NODES, _SMALL | _U64 | _NEAR)


def _publications(homes: st.SearchStrategy[tuple[int, ...]]) -> st.SearchStrategy[Publication]:
    return st.builds(
        lambda id_, *rest: Publication(*id_, *rest),
        *(_IDS, _SMALL | _U64, _MESSAGES, st.integers(0, 15).map(PublicationFlags), homes),
    )


_HOMES = st.sets(_NODES, min_size=1).map(lambda nodes: tuple(sorted(nodes)))
_BODIES: dict[FrameType, st.SearchStrategy[Any]] = {
    FrameType.SUB: st.builds(
        Subscription,
        *(_SMALL | _U32, _SMALL | _U32, _SMALL | _U32, _SMALL | _U64, _SMALL | _U64, _PREDICATES),
        *(st.integers(0, 3).map(SubscriptionFlags), st.lists(_IDS, max_size=3).map(tuple)),
    ),
    FrameType.PUB: _publications(_HOMES),
    FrameType.OVERLOAD: st.builds(Overload, _SMALL | _U32),
    FrameType.FLUSH: _publications(st.just(())),
}
_FRAMES = st.sampled_from(tuple(_BODIES)).flatmap(
    lambda kind: st.builds(
        Frame, st.just(kind), _NODES, _SMALL | _U64, st.integers(0, 2), st.integers(0, 2), _BODIES[kind]
    )
)
_EVENTS = st.one_of(
    st.builds(FrameReceived, _NODES, _FRAMES),
    st.builds(Register, _SMALL, _PREDICATES, st.integers(1, 3), st.floats(0.1, 9), st.floats(0.1, 9)),
    st.builds(Upload, _SMALL, _MESSAGES),
    st.builds(Refresh, _SMALL, st.integers(0, 3).map(lambda n: INCARNATION << 32 | n)),
    st.builds(ApplicationGone, _SMALL),
    st.just(Tick()),
)


@given(st.lists(st.tuples(st.floats(0, 2), _EVENTS), max_size=30), ANY_OPTIONS)
@settings(max_examples=80)
def test_no_frame_harms_a_router(events: list[tuple[float, Event]], options: AttentionOptions) -> None:
    # What waits for a slow interface outlives the ticks below.
    options = replace(options, cache_publications=2, pace_mbps=None)
    router = set_up(RouterOptions(service="attention", service_options=options))
    now, frames = 0.0, 0
    for wait, event in events:
        now += wait
        for _, frame in sent(router.handle(event, now)):
            assert decode(encode(frame)) == frame
        frames += isinstance(event, FrameReceived)
    # A frame was handled, or its drop counted.
    counters = router.counters
    handled = counters.subs_received + counters.pubs_received
    handled += counters.overloads_received + counters.flushes_received
    assert handled + counters.dropped.total() >= frames
    assert len(state_of(router).cache) <= 2
    now += 2e9
    for _ in range(8):
        router.handle(Tick(), now)
        now += 2.0
    assert not len(state_of(router).table)
    assert router.next_deadline() is None
    assert router.idle


def test_one_sub_releases_many_publications_and_goes_no_further_if_it_is_served_here() -> None:
    router = attention_router()
    for _ in range(200):
        upload(router, x=1)
    assert types(received(router, 11, sub(body=replace(SUB, remaining=150)))) == ["PUB"] * 150
    assert not len(state_of(router).table._active)
    # The SUB went no further, and a further upload stays here.
    assert types(upload(router, x=1)) == []
    # What is left goes to the next subscription, and the SUB goes on.
    actions = received(router, 11, sub(seq=2, body=replace(SUB, remaining=150)))
    assert len(pubs(actions)) == 51
    assert [onward.remaining for _, onward in subs(actions)] == [99]


def test_a_neighbour_leaves_room_for_the_subscriptions_of_others() -> None:
    router = attention_router(subscriptions=9)
    for seq in range(9):
        received(router, 11, sub(seq=seq))
    assert len(state_of(router).table) == 5
    assert router.counters.dropped["sub_refused"] == 4
    for seq in range(9):
        received(router, 12, sub(issuer=12, seq=seq))
    assert len(state_of(router).table) == 7
    assert not any(
        isinstance(each, Refused) for each in router.handle(Register(1, SUB.predicate, 1, 9.0, 9.0), 0.0)
    )


@pytest.mark.parametrize("kind", [FrameType.SUB, FrameType.PUB, FrameType.FLUSH])
def test_a_body_that_is_too_long_for_a_turn_is_refused_undecoded(kind: FrameType) -> None:
    if kind is FrameType.SUB:
        text = " or ".join(f"attribute{n} = {n}" for n in range(2000))
        frame = sub(body=replace(SUB, predicate=parse_predicate(text)))
    else:
        homes = (NODE,) if kind is FrameType.PUB else ()
        message = Message({f"attribute{n}": "x" * 20 for n in range(1400)})
        frame = frame_of(kind, 11, 1, Publication(11, 1, 0, message, PublicationFlags.NONE, homes))
    payload = encode(frame)
    whole = forwarded_frame(decode_header(payload), payload[HEADER_LENGTH:])
    assert isinstance(whole.body, EncodedPredicate)
    assert encode(whole) == payload
    router = attention_router()
    assert received(router, 11, whole) == []
    assert router.counters.dropped["malformed"] == 1
    assert "refused" in describe_frame(whole)


def test_a_sub_of_the_longest_predicate_has_room_for_all_publications_that_it_names() -> None:
    length = MAX_SUB_PREDICATE_BYTES - len(encode_predicate(parse_predicate('x = ""')))
    longest, longer = (parse_predicate(f'x = "{"y" * each}"') for each in (length, length + 1))
    taken, *_ = attention_router().handle(Register(1, longest, 1, 9.0, 9.0), 0.0)
    assert isinstance(taken, Registered)
    (refused,) = attention_router().handle(Register(1, longer, 1, 9.0, 9.0), 0.0)
    assert isinstance(refused, Refused)
    assert "bytes in a SUB" in refused.reason
    offered = tuple((11, number) for number in range(MAX_OFFERED))
    payload = encode(sub(body=replace(SUB, predicate=longest, offered=offered)))
    assert len(payload) - HEADER_LENGTH == MAX_SUB_BYTES
    whole = forwarded_frame(decode_header(payload), payload[HEADER_LENGTH:])
    assert isinstance(whole.body, Subscription)
