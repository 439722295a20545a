"""Sender requests, update replies and scheduled advertisements at one router, event by event."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.predicates import EVERYTHING, Message
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.parser import parse_predicate
from router.protocol.core.router import Router
from router.protocol.events import (
    FrameReceived,
    HandlingTime,
    RequestUpdate,
    SendMessage,
    SetPredicate,
    Settle,
    Tick,
)
from router.protocol.options import RouterOptions
from router.protocol.pull.requests import INITIAL_ROUND_TRIP
from router.protocol.schemes.per_interface import PerInterfaceStrict
from router.wire.frames import Commit, Flags, Frame, FrameType, SenderRequest
from tests.support.one_router import (
    FIRST,
    NEXT_TABLE,
    NODE,
    TABLE,
    control,
    in_first_epoch,
    msg,
    new_router,
    ra,
    sent,
    set_up,
)
from tests.support.router_tables import predicates_of
from tests.support.tree_entries import entries_of, table_of

#: `TABLE` of the router's tests, and where replies may be reused.
REUSABLE = table_of(
    TABLE.neighbours,
    tuple(replace(each, reusable=(2,) if each.source == 11 else ()) for each in entries_of(TABLE)),
)


def sr(issuer: int, seq: int = 1, timeout: float = 1.0, hop_limit: int = 9) -> Frame:
    return Frame(FrameType.SR, issuer, seq, 1, hop_limit, SenderRequest(round(timeout * 1e6)))


def ur(issuer: int, text: str, seq: int = 1, partial: bool = False) -> Frame:
    flags = Flags.PARTIAL if partial else Flags.NONE
    return Frame(FrameType.UR, issuer, seq, 1, 1, parse_predicate(text), flags)


def received(router: Router, sender: int, frame: Frame, now: float = 0.0) -> list[tuple[set[int], Frame]]:
    return sent(router.handle(FrameReceived(sender, frame), now))


# The issuer.


def test_an_issuer_replaces_each_entry_by_its_reply() -> None:
    router = set_up(RouterOptions(sr_timeout_s=2.0))
    received(router, 11, ra(11, "x > 1"))
    received(router, 12, ra(12, "x > 2"))
    asked = sent(router.handle(RequestUpdate(), 1.0))
    assert asked == [({1, 2, 3}, sr(NODE, FIRST, timeout=2.0, hop_limit=64))]
    assert not router.idle
    assert router.next_deadline() == 3.0
    assert received(router, 11, ur(NODE, "x > 5", FIRST), 1.5) == []
    assert received(router, 13, ur(NODE, "none", FIRST), 1.5) == []
    assert predicates_of(router) == {1: parse_predicate("x > 5"), 2: parse_predicate("x > 2")}
    # Interface 2 never answers: its entry stays.
    router.handle(Tick(), 3.0)
    assert router.idle
    assert predicates_of(router)[2] == parse_predicate("x > 2")
    assert received(router, 12, ur(NODE, "none", FIRST), 3.1) == []
    counters = router.counters
    assert (counters.srs_issued, counters.urs_received) == (1, 3)
    assert (counters.urs_applied, counters.urs_missed) == (2, 1)
    assert counters.dropped == {"ur_late": 1}


def test_a_request_can_be_limited_to_interfaces_and_repeated() -> None:
    router = set_up()
    # Interface 7 does not exist.
    first = sent(router.handle(RequestUpdate(frozenset({2, 7})), 0.0))
    assert [(interfaces, frame.seq) for interfaces, frame in first] == [({2}, FIRST)]
    assert [frame.seq for _, frame in sent(router.handle(RequestUpdate(), 0.0))] == [FIRST + 1]
    # The request before is given up.
    received(router, 12, ur(NODE, "x > 1", FIRST))
    received(router, 12, ur(NODE, "x > 1", FIRST + 7))
    assert router.counters.dropped == {"ur_late": 1, "ur_unexpected": 1}
    assert predicates_of(router) == {}
    assert new_router().handle(RequestUpdate(), 0.0) == []


# The others.


def test_a_partial_reply_stays_so_upstream() -> None:
    router = set_up()
    received(router, 11, sr(11, seq=2))
    received(router, 12, ur(11, "x > 5", seq=2, partial=True))
    assert received(router, 13, ur(11, "none", seq=2)) == [({1}, ur(11, "x > 5", seq=2, partial=True))]
    assert router.counters.urs_sent_partial == 1


def test_a_request_that_cannot_go_on_is_answered_partially() -> None:
    router = set_up()
    router.handle(SetPredicate(1, parse_predicate("x > 1")), 0.0)
    assert received(router, 11, sr(11, hop_limit=1)) == [({1}, ur(11, "x > 1", partial=True))]
    assert received(router, 11, sr(11, seq=2, timeout=INITIAL_ROUND_TRIP / 2)) == [
        ({1}, ur(11, "x > 1", seq=2, partial=True))
    ]


def test_a_new_request_of_an_issuer_replaces_the_one_before() -> None:
    router = set_up()
    received(router, 11, sr(21))
    assert len(received(router, 11, sr(21, seq=2))) == 1
    assert received(router, 12, ur(21, "x > 1", seq=1)) == []
    assert received(router, 12, ur(21, "x > 1", seq=2)) == [({1}, ur(21, "x > 1", seq=2))]


def timeout_us(frame: Frame) -> int:
    assert isinstance(frame.body, SenderRequest)
    return frame.body.timeout_us


def test_timeouts_follow_what_was_measured() -> None:
    router = set_up()
    router.handle(RequestUpdate(frozenset({1})), 0.0)
    received(router, 11, ur(NODE, "none", FIRST), 0.3)
    router.handle(HandlingTime(0.1), 0.3)
    _, forwarded = received(router, 11, sr(11), 1.0)[0]
    assert timeout_us(forwarded) == pytest.approx(600_000, abs=1)
    # The smallest of the last few round trips counts.
    router.handle(RequestUpdate(frozenset({1})), 2.0)
    received(router, 11, ur(NODE, "none", FIRST + 1), 2.1)
    _, forwarded = received(router, 11, sr(11, seq=2), 3.0)[0]
    assert timeout_us(forwarded) == pytest.approx(800_000, abs=1)


def test_a_partial_reply_shortens_a_round_trip_that_was_measured_too_long() -> None:
    """Otherwise all URs of a router that started slowly stay partial: no whole one would correct its t_c."""
    router = set_up(RouterOptions(sr_timeout_s=10.0))
    router.handle(RequestUpdate(frozenset({1})), 0.0)
    received(router, 11, ur(NODE, "none", FIRST), 6.0)
    assert len(received(router, 11, sr(11, timeout=5.0), 7.0)) == 1  # partial, at once
    assert router.counters.urs_sent_partial == 1
    for number, (asked_s, answered_s, left_s) in enumerate(((20.0, 28.0, 4.0), (30.0, 30.5, 9.5)), 1):
        router.handle(RequestUpdate(frozenset({1})), asked_s)
        received(router, 11, ur(NODE, "none", FIRST + number, partial=True), answered_s)
        ((_, forwarded),) = received(router, 11, sr(11, seq=1 + number, timeout=10.0), 40.0 + number)
        assert timeout_us(forwarded) == pytest.approx(left_s * 1e6, abs=1)


def test_a_retired_epoch_takes_its_requests_along() -> None:
    router = set_up()
    received(router, 11, sr(11))
    for epoch in (2, 3):
        control(router, FrameType.TABLE, epoch, NEXT_TABLE)
        control(router, FrameType.COMMIT, epoch, Commit(epoch))
    assert router.idle


# Sharing.


def test_a_reply_for_another_is_reused_where_the_same_nodes_lie_beyond() -> None:
    router = set_up(RouterOptions(ur_freshness_s=5.0), REUSABLE)
    received(router, 12, ra(12, "x > 1"))
    received(router, 13, ra(13, "x > 1"))
    received(router, 11, sr(11), 1.0)
    received(router, 12, ur(11, "x > 5"), 1.0)
    received(router, 13, ur(11, "x > 5"), 1.0)
    # Interface 3 is not among the reusable ones.
    assert predicates_of(router) == {2: parse_predicate("x > 5"), 3: parse_predicate("x > 1")}
    assert router.counters.urs_reused == 1
    # Fresh: the next SR does not go on to interface 2.
    assert [interfaces for interfaces, _ in received(router, 11, sr(11, seq=2), 6.0)] == [{3}]
    assert received(router, 13, ur(11, "none", seq=2), 6.0) == [({1}, ur(11, "x > 5", seq=2))]
    assert router.counters.srs_saved == 1
    # No longer fresh.
    assert [interfaces for interfaces, _ in received(router, 11, sr(11, seq=3), 6.1)] == [{2, 3}]


@pytest.mark.parametrize(("reuse", "partial"), [(False, False), (True, True)])
def test_a_reply_is_not_reused_if_it_is_partial_or_reuse_is_off(reuse: bool, partial: bool) -> None:
    router = set_up(RouterOptions(ur_reuse=reuse), REUSABLE)
    received(router, 12, ra(12, "x > 1"))
    received(router, 11, sr(11))
    received(router, 12, ur(11, "x > 5", partial=partial))
    assert predicates_of(router) == {2: parse_predicate("x > 1")}
    assert [interfaces for interfaces, _ in received(router, 11, sr(11, seq=2))] == [{2, 3}]


# Times of requests.


def test_periodic_requests() -> None:
    router = set_up(RouterOptions(sr_policy="periodic", sr_period_s=10.0, sr_timeout_s=1.0))
    first = router.next_deadline()
    assert first is not None and 0.0 <= first <= 10.0
    assert [interfaces for interfaces, _ in sent(router.handle(Tick(), first))] == [{1, 2, 3}]
    router.handle(Tick(), first + 1.0)
    assert router.idle
    assert router.next_deadline() == first + 10.0
    assert len(sent(router.handle(Tick(), first + 10.0))) == 1
    # While one is outstanding, no other goes the same way.
    impatient = set_up(RouterOptions(sr_policy="periodic", sr_period_s=1.0, sr_timeout_s=10.0))
    first = impatient.next_deadline()
    assert first is not None
    assert len(sent(impatient.handle(Tick(), first))) == 1
    assert sent(impatient.handle(Tick(), first + 1.0)) == []


def test_requests_by_the_count_of_messages() -> None:
    options = RouterOptions(sr_policy="count", sr_threshold=2, sr_min_interval_s=5.0, sr_timeout_s=1.0)
    router = set_up(options)
    received(router, 12, ra(12, "x > 1"))
    received(router, 13, ra(13, "x > 5"))

    def requests_after(now: float) -> list[set[int]]:
        actions = router.handle(FrameReceived(11, msg(11, x=2)), now)
        return [interfaces for interfaces, frame in sent(actions) if frame.type is FrameType.SR]

    assert [requests_after(0.0) for _ in range(3)] == [[], [], [{2}]]
    received(router, 12, ur(NODE, "x > 1", FIRST), 0.5)
    # The count restarts at 0; it exceeds the threshold before the interval is over, and waits.
    assert [requests_after(1.0) for _ in range(4)] == [[], [], [], []]
    assert router.next_deadline() == 5.0
    due = sent(router.handle(Tick(), 5.0))
    assert [(interfaces, frame.seq) for interfaces, frame in due] == [({2}, FIRST + 1)]
    # It is outstanding: the next deadline is its timeout, whatever is counted.
    assert [requests_after(5.5) for _ in range(4)] == [[], [], [], []]
    assert router.next_deadline() == 6.0
    # Messages of this node's own applications count too.
    own = [router.handle(SendMessage(1, Message({"x": 9})), 5.5) for _ in range(3)]
    assert [frame.type for _, frame in sent(own[-1])] == [FrameType.MSG, FrameType.SR]


def test_requests_by_the_count_of_unwanted_messages() -> None:
    router = set_up(
        RouterOptions(sr_policy="unwanted", sr_threshold=1, sr_min_interval_s=5.0, sr_timeout_s=1.0)
    )
    received(router, 12, ra(12, "x > 1"))

    def due_after(x: int, now: float) -> float | None:
        """A message that neighbour 12 and no other asks for is forwarded; others are unwanted."""
        router.handle(FrameReceived(11, msg(11, x=x)), now)
        return router.next_deadline()

    assert [due_after(x, 0.0) for x in (2, 2, 2, 0)] == 4 * [None]
    assert due_after(0, 0.0) == 0.0
    assert [interfaces for interfaces, _ in sent(router.handle(Tick(), 0.0))] == [{1, 2, 3}]
    router.handle(Tick(), 1.0)
    # The count restarts at 0; it exceeds the threshold before the interval is over, and waits.
    assert [due_after(x, 1.5) for x in (0, 2)] == [None, None]
    # An SR for another reason, through one interface, restarts no count. Its UR is awaited, until 2.5.
    router.handle(RequestUpdate(frozenset({2})), 1.5)
    assert due_after(0, 1.5) == 2.5
    router.handle(Tick(), 2.5)
    assert router.next_deadline() == 5.0
    assert [interfaces for interfaces, _ in sent(router.handle(Tick(), 5.0))] == [{1, 2, 3}]
    router.handle(Tick(), 6.0)
    router.handle(Settle(), 6.0)
    assert [due_after(0, 20.0) for _ in range(2)] == [None, None]
    # Compiled code would not tell the policy of a message.
    assert router.forwarding() is None


# Advertisements.


def test_advertisements_keep_their_distance_and_lose_no_change() -> None:
    router = set_up(RouterOptions(ra_min_interval_s=10.0))
    assert len(sent(router.handle(SetPredicate(1, parse_predicate("x > 5")), 100.0))) == 1
    for now, text in ((101.0, "x > 4"), (102.0, "x > 3")):
        assert router.handle(SetPredicate(1, parse_predicate(text)), now) == []
    assert router.next_deadline() == 110.0
    assert not router.idle
    assert sent(router.handle(Tick(), 110.0)) == [({1, 2, 3}, ra(NODE, "x > 3", hop_limit=64, seq=FIRST + 1))]
    assert router.idle
    # Back to the last advertisement: sent once more, as a table may have been trimmed in between.
    router.handle(SetPredicate(1, parse_predicate("x > 8")), 111.0)
    router.handle(SetPredicate(1, parse_predicate("x > 3")), 112.0)
    assert len(sent(router.handle(Tick(), 120.0))) == 1


def test_advertisements_wait_at_random() -> None:
    router = set_up(RouterOptions(ra_jitter_s=1.0))
    assert router.handle(SetPredicate(1, EVERYTHING), 5.0) == []
    due = router.next_deadline()
    assert due is not None and 5.0 < due <= 6.0
    # Another change does not put it off.
    assert router.handle(SetPredicate(1, parse_predicate("x > 1")), 5.0) == []
    due = min(due, router.next_deadline() or 0.0)
    assert due > 5.0
    assert [frame.body for _, frame in sent(router.handle(Tick(), due))] == [parse_predicate("x > 1")]
    assert router.next_deadline() is None


def test_periodic_advertisements_obey_the_least_interval() -> None:
    router = new_router(RouterOptions(ra_period_s=4.0, ra_min_interval_s=10.0))
    router.handle(SetPredicate(1, EVERYTHING), 0.0)
    control(router, FrameType.TABLE, 1, TABLE)
    control(router, FrameType.COMMIT, 1, Commit(1), 0.0)
    assert router.counters.ras_issued == 1
    at = [now for now in range(1, 31) if sent(router.handle(Tick(), float(now)))]
    assert at == [10, 20, 30]


@pytest.mark.parametrize(
    "options",
    [
        RouterOptions(ra_period_s=4.0),
        RouterOptions(sr_policy="periodic", sr_period_s=10.0),
        RouterOptions(sr_policy="count", sr_threshold=0),
    ],
)
def test_a_router_that_settles_starts_nothing_more(options: RouterOptions) -> None:
    router = set_up(options)
    received(router, 12, ra(12, "x > 1"))
    router.handle(SetPredicate(1, EVERYTHING), 0.0)
    assert router.handle(Settle(), 0.0) == []
    assert router.next_deadline() is None
    kinds = [frame.type for _, frame in received(router, 11, msg(11, x=2))]
    assert kinds == [FrameType.MSG]
    # Requests are still served: a change is advertised.
    assert len(sent(router.handle(SetPredicate(1, parse_predicate("x > 7")), 20.0))) == 1
    # Nor does one that settles before its first epoch.
    router = new_router(options)
    assert router.handle(Settle(), 0.0) == []
    in_first_epoch(router)
    assert router.next_deadline() is None


def test_a_report_of_the_strict_rules_does_not_grow_with_the_table() -> None:
    router = set_up(RouterOptions(scheme="pif-strict"))
    assert isinstance(router._scheme, PerInterfaceStrict)
    reported = PredicateBuilder(parse_predicate("x > 9"))
    report = router._scheme.reply_rules().with_advertised({1: reported}, {})
    report[1].add(parse_predicate("x > 5"))
    assert reported.predicate == parse_predicate("x > 9")
