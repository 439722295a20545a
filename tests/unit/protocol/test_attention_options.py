"""Options and transitions of the attention-limited service: what is sent, delivered and cached."""

from __future__ import annotations

from itertools import product

import pytest

from router.predicates import Message
from router.predicates.parser import parse_predicate
from router.protocol.core.router import Router
from router.protocol.events import Action, Tick
from router.protocol.services.attention import DeliverPublication, Index, IndexChanged, Refresh
from router.protocol.services.attention.cache import Cache, Cached
from router.protocol.services.attention.dissemination import (
    TRANSITIONS,
    AttentionOptions,
    PolicyName,
    Trigger,
    transition,
)
from router.wire.frames import FrameType, Publication, PublicationFlags, Subscription
from tests.support.attention_router import (
    SUB,
    attention_router,
    frame_of,
    put,
    register,
    state_of,
    sub,
    types,
    upload,
)
from tests.support.one_router import NODE, received, sent

_FLAGS = [PublicationFlags.NONE, PublicationFlags.PENDING]


def _lasting(remaining: int, freshness_s: float = 100.0) -> Subscription:
    """The body of a SUB of 90 s."""
    return Subscription(0, 1, remaining, 90_000_000, round(freshness_s * 1e6), SUB.predicate)


def _pub(router: Router, seq: int, homes: tuple[int, ...], flags: PublicationFlags) -> list[Action]:
    """A PUB of the router of node 11 with a publication of 2 s."""
    body = Publication(11, seq, 2_000_000, Message({"x": 1}), flags, homes)
    return received(router, 11, frame_of(FrameType.PUB, 11, seq, body))


def _publications(actions: list[Action]) -> list[Publication]:
    return [frame.body for _, frame in sent(actions) if isinstance(frame.body, Publication)]


def _delivered(actions: list[Action]) -> list[int]:
    """The numbers of the publications that are delivered, without the incarnation."""
    return [each.seq & 0xFFFF_FFFF for each in actions if isinstance(each, DeliverPublication)]


# Ages.


def test_a_publication_of_the_cache_is_sent_with_its_age() -> None:
    router = attention_router()
    upload(router, x=1)
    (pub,) = _publications(received(router, 11, sub(), 5.0))
    assert pub.age_us == 5_000_000


def test_a_publication_that_is_too_old_takes_the_place_of_no_other() -> None:
    """At a router that a SUB reaches, and at the home."""
    for asks in ("sub", "register"):
        router = attention_router()
        upload(router, 0.0, x=1)
        upload(router, 4.0, x=1)
        if asks == "sub":
            actions = received(router, 11, sub(body=_lasting(1, freshness_s=3.0)), 5.0)
            assert [pub.age_us for pub in _publications(actions)] == [1_000_000]
        else:
            assert _delivered(register(router, 1, freshness_s=3.0, now=5.0)[1]) == [2]


def test_a_pending_publication_goes_to_no_home_for_which_it_is_too_old() -> None:
    router = attention_router(strategy="pdp")
    received(router, 11, sub(body=_lasting(2, freshness_s=3.0)))
    received(router, 12, sub(issuer=12, body=_lasting(2)))
    upload(router, x=1)
    pubs = _publications(received(router, 13, sub(issuer=13, body=_lasting(2)), 5.0))
    assert [pub.homes for pub in pubs] == [(12,), (13,)]


# Strategies, and what routers count.


def test_pdp_sends_an_upload_at_once_after_the_time_of_the_push() -> None:
    router = attention_router(strategy="pdp", beta_s=1.0)
    received(router, 11, sub())
    router.handle(Tick(), 9.0)
    assert types(upload(router, 9.5, x=1)) == ["PUB"]
    assert [cached.index for cached in state_of(router).cache] == [Index.OPT]


@pytest.mark.parametrize(("counts", "pushed"), [(False, 3), (True, 2)])
def test_pushes_count_against_a_subscription_if_the_option_says_so(counts: bool, pushed: int) -> None:
    router = attention_router(count_in_transit=counts)
    received(router, 11, sub())
    assert sum(len(types(upload(router, x=1))) for _ in range(3)) == pushed


@pytest.mark.parametrize(("counts", "pushed"), [(False, 1), (True, 0)])
def test_publications_that_pass_count_against_a_subscription_if_the_option_says_so(
    counts: bool, pushed: int
) -> None:
    router = attention_router(count_in_transit=counts)
    received(router, 12, sub(issuer=12))
    for seq in (1, 2):
        assert types(_pub(router, seq, (12,), PublicationFlags.NONE)) == ["PUB"]
    assert len(types(upload(router, x=1))) == pushed


@pytest.mark.parametrize("flags", _FLAGS)
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
    assert _delivered(register(router, 2)[1]) == [1, 2]
    if index is Index.DPT:
        received(router, 11, sub())
    assert {cached.index for cached in state_of(router).cache} == {index}
    assert _delivered(router.handle(Refresh(1, number), 1.0)) == got


# The cache.


@pytest.mark.parametrize(
    ("selection", "order"),
    [
        ("lf", [2, 0, 1]),
        ("mf", [1, 0, 2]),
        ("lru", [1, 2, 0]),
        ("mru", [0, 2, 1]),
        ("mfu", [2, 0, 1]),
    ],
)
def test_policies_say_which_publication_is_delivered_first(selection: PolicyName, order: list[int]) -> None:
    cache = Cache(AttentionOptions(selection=selection))
    # Number: uploaded at, used at.
    for number, (at, uses) in enumerate([(5.0, [13.0]), (9.0, []), (1.0, [11.0, 12.0])]):
        cached = Cached((0, number), Message({"x": 1}), at, 10.0)
        put(cache, cached, Index.DPT)
        for now in uses:
            cache.used(cached, now)
    found = cache.select(parse_predicate("x = 1"), 3, frozenset(Index), 0.0, lambda _: True)
    assert [cached.id[1] for cached in found] == order


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
    entered, left = (each for each in actions if isinstance(each, IndexChanged))
    assert (entered.before, left.after) == (None, None)
    assert ((left.source, left.seq), left.before, left.cause) == (first.id, Index.PPT, cause)


_PPT, _DPT, _OPT = Index.PPT, Index.DPT, Index.OPT

#: Trigger, and its conditions in their order (1: holds, 0: does not, -: either) -> the name of the row, the
#: index and the flag DF afterwards.
_EXPECTED = {
    # local, pushed
    (Trigger.UPLOAD, "00"): ("U1", _PPT, False),
    (Trigger.UPLOAD, "10"): ("U2", _PPT, True),
    (Trigger.UPLOAD, "01"): ("U3", _OPT, False),
    (Trigger.UPLOAD, "11"): ("U4", _DPT, False),
    # dispatched
    (Trigger.SELECTED, "0"): ("P1", _OPT, False),
    (Trigger.SELECTED, "1"): ("P1", _DPT, False),
    # taken, pf, forwarded, addressed, en_route
    (Trigger.ARRIVAL, "1----"): ("T1", _DPT, False),
    (Trigger.ARRIVAL, "01-1-"): ("T3", _OPT, False),
    # All homes of the PUB were served before.
    (Trigger.ARRIVAL, "0100-"): ("T3", _OPT, False),
    (Trigger.ARRIVAL, "01101"): ("T2", _OPT, False),
    (Trigger.ARRIVAL, "01100"): ("T5", None, False),
    (Trigger.ARRIVAL, "001-1"): ("T4", _DPT, False),
    (Trigger.ARRIVAL, "001-0"): ("T5", None, False),
    (Trigger.ARRIVAL, "000--"): ("T6", None, False),
    # ppt
    (Trigger.TAKEN, "1"): ("L1", _PPT, True),
    (Trigger.TAKEN, "0"): ("L1", _DPT, False),
}


def _facts(conditions: str) -> list[tuple[bool, ...]]:
    """All that the conditions allow."""
    return list(product(*((False, True) if each == "-" else (each == "1",) for each in conditions)))


@pytest.mark.parametrize(("trigger", "conditions"), _EXPECTED)
def test_a_publication_is_afterwards_in_the_index_of_the_documentation(
    trigger: Trigger, conditions: str
) -> None:
    for facts in _facts(conditions):
        row = transition(trigger, *facts)
        assert (row.name, row.after, row.dispatched) == _EXPECTED[trigger, conditions], facts


def test_every_row_of_the_table_applies_and_every_case_is_expected_once() -> None:
    used = set()
    for trigger in Trigger:
        found = [facts for each, text in _EXPECTED if each is trigger for facts in _facts(text)]
        assert sorted(found) == list(product((False, True), repeat=len(trigger.value)))
        used |= {id(transition(trigger, *facts)) for facts in found}
    assert used == {id(row) for row in TRANSITIONS}
