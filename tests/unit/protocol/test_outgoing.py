"""RAs and URs with many filters: made in turns of their own, while the router goes on."""

from __future__ import annotations

from typing import Any

import pytest

from router.predicates.covering import pool
from router.predicates.covering.builder import PredicateBuilder
from router.predicates.model import Constraint, Filter, Operator, Predicate, Type
from router.predicates.parser import parse_predicate
from router.protocol.events import Send, SetPredicate, Tick
from router.protocol.options import RouterOptions
from router.protocol.outgoing import AT_ONCE
from router.protocol.router import Router
from router.wire.codec import encode_body, encode_predicate_in_steps
from router.wire.frames import ClassifiedPredicate, Commit, Flags, Frame, FrameType, SenderRequest
from tests.support.one_router import (
    BELOW,
    FIRST,
    NEXT_TABLE,
    NODE,
    TABLE,
    control,
    msg,
    ra,
    received,
    sent,
    set_up,
)
from tests.support.tree_entries import with_subtrees

#: Each RA from a neighbour is read at once.
_OPTIONS = RouterOptions(turn_weight=20_000, turn_pairs=1, ur_freshness_s=0.0)


def _texts(first: int, count: int) -> Predicate:
    return Predicate(
        tuple(
            Filter((Constraint("s", Type.STRING, Operator.EQ, f"outgoing {number}"),))
            for number in range(first, first + count)
        )
    )


def _request(seq: int = 1, issuer: int = 11) -> Frame:
    return Frame(FrameType.SR, issuer, seq, 1, 9, SenderRequest(1_000_000))


def _reply(predicate: Predicate, seq: int = 1, partial: bool = False) -> Frame:
    return Frame(FrameType.UR, 11, seq, 1, 1, predicate, Flags.PARTIAL if partial else Flags.NONE)


def _asked(router: Router, predicate: Predicate, seq: int = 1) -> list[Any]:
    """The actions of the router when the URs of both children have come: nothing yet, if its UR is large."""
    received(router, 11, _request(seq))
    received(router, 13, _reply(Predicate(), seq))
    return received(router, 12, _reply(predicate, seq))


def _turns(router: Router) -> list[list[Any]]:
    """The actions of each turn until the router is idle."""
    turns = []
    while not router.idle:
        due = router.next_deadline()
        assert due is not None
        assert due <= 0.0
        turns.append(router.handle(Tick(), 0.0))
    return turns


def test_a_large_ur_is_made_in_turns_of_its_own() -> None:
    router = set_up(_OPTIONS)
    many = _texts(0, 3 * AT_ONCE)
    assert sent(_asked(router, many)) == []
    assert not router.idle
    turns = _turns(router)
    # The filters are put in order; each part is encoded; the UR is sent with the last.
    assert len(turns) == 1 + 3 + 1
    assert all(not actions for actions in turns[:-1])
    ((ports, reply),) = sent(turns[-1])
    assert (ports, reply.type, reply.flags) == ({1}, FrameType.UR, Flags.NONE)
    assert isinstance(reply.body, Predicate)
    assert set(reply.body.filters) == set(many.filters)
    assert reply.received == encode_body(Frame(FrameType.UR, 11, 1, 1, 1, reply.body))
    assert router.counters.urs_sent == 1


def test_the_filters_of_a_large_ur_are_picked_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PICKED", AT_ONCE)
    router = set_up(_OPTIONS)
    many = _texts(0, 3 * AT_ONCE)
    assert sent(_asked(router, many)) == []
    turns = _turns(router)
    assert len(turns) == 1 + 2 + 3 + 1
    ((_, reply),) = sent(turns[-1])
    assert isinstance(reply.body, Predicate)
    assert reply.body == PredicateBuilder(many).predicate
    assert reply.received == encode_body(Frame(FrameType.UR, 11, 1, 1, 1, reply.body))


def test_a_small_ur_is_sent_at_once() -> None:
    router = set_up(_OPTIONS)
    ((ports, reply),) = sent(_asked(router, _texts(0, AT_ONCE)))
    assert (ports, len(reply.body)) == ({1}, AT_ONCE)  # type: ignore[arg-type]
    assert router.idle


def test_messages_and_ras_are_passed_on_while_a_ur_is_made() -> None:
    router = set_up(_OPTIONS)
    received(router, 12, ra(12, "x = 1"))
    _asked(router, _texts(0, 2 * AT_ONCE))
    ((_, forwarded),) = sent(received(router, 11, msg(11, x=1)))
    assert forwarded.type is FrameType.MSG
    # It overtakes the UR, whose receiver adds it to what the UR says.
    ((_, advertised),) = sent(received(router, 12, ra(12, "z = 1")))
    assert advertised.type is FrameType.RA
    *_, (last,) = [actions for actions in _turns(router) if actions]
    assert isinstance(last, Send)
    assert last.frame.type is FrameType.UR


def test_a_newer_request_of_the_issuer_takes_the_place_of_its_last() -> None:
    router = set_up(_OPTIONS)
    _asked(router, _texts(0, 2 * AT_ONCE))
    router.handle(Tick(), 0.0)
    _asked(router, _texts(1, 2 * AT_ONCE), seq=2)
    replies = [frame for actions in _turns(router) for _, frame in sent(actions)]
    assert [frame.seq for frame in replies] == [2]


def test_no_ur_is_sent_for_a_retired_epoch() -> None:
    router = set_up(_OPTIONS)
    _asked(router, _texts(0, 2 * AT_ONCE))
    control(router, FrameType.TABLE, 2, NEXT_TABLE)
    control(router, FrameType.COMMIT, 2, Commit(2))
    assert [frame.type for actions in _turns(router) for _, frame in sent(actions)] == []
    assert router.counters.urs_sent == 0


def test_a_request_that_times_out_is_answered_in_turns_too() -> None:
    router = set_up(_OPTIONS)
    received(router, 11, _request())
    received(router, 12, _reply(_texts(0, 2 * AT_ONCE), partial=True))
    due = router.next_deadline()
    assert due is not None
    assert router.handle(Tick(), due) == []
    turns = []
    while not router.idle:
        turns.append(router.handle(Tick(), due))
    ((_, reply),) = sent(turns[-1])
    assert reply.flags == Flags.PARTIAL
    assert len(turns) == 1 + 2 + 1


def test_a_large_p0_is_advertised_in_turns_and_a_change_waits_for_the_last() -> None:
    router = set_up(RouterOptions(ra_min_interval_s=0.0, ra_jitter_s=0.0))
    for app in (1, 2):
        router.handle(SetPredicate(app, _texts(5_000 * app, AT_ONCE - 1)), 0.0)
        _turns(router)
    router.handle(SetPredicate(3, parse_predicate("x = 1")), 0.0)
    assert not router.idle
    router.handle(SetPredicate(3, parse_predicate("x = 2")), 0.0)
    turns = _turns(router)
    advertised = [frame for actions in turns for _, frame in sent(actions)]
    assert [frame.type for frame in advertised] == [FrameType.RA] * 2
    assert [frame.seq for frame in advertised] == [FIRST + number for number in (2, 3)]
    for frame, text in zip(advertised, ("x = 1", "x = 2"), strict=True):
        assert isinstance(frame.body, Predicate)
        assert set(parse_predicate(text).filters) <= set(frame.body.filters)
        assert frame.received == encode_body(Frame(FrameType.RA, 1, 1, 1, 1, frame.body))
    assert router.counters.ras_issued == 4


def test_parts_of_a_body_keep_the_classes_of_nodes() -> None:
    many = _texts(0, 7)
    for classes in ((), ((4, 0), (5, 3), (6, 3), (7, 7)), ((4, 2), (9, 6))):
        predicate = ClassifiedPredicate(many.filters, classes)
        body = encode_body(Frame(FrameType.UR, 1, 1, 1, 1, predicate))
        for filters in range(1, 9):
            steps = encode_predicate_in_steps(FrameType.UR, predicate, filters)
            count = 0
            while True:
                try:
                    next(steps)
                    count += 1
                except StopIteration as end:
                    assert end.value == body
                    break
            assert count == -(-7 // filters)


def test_classes_of_a_large_ur_are_put_in_order_one_in_a_turn() -> None:
    options = RouterOptions(scheme="pif-classes", turn_weight=20_000, turn_pairs=1, ur_freshness_s=0.0)
    router = set_up(options, with_subtrees(TABLE, BELOW))
    received(router, 11, _request())
    for first, child in ((0, 12), (AT_ONCE, 13)):
        part = ClassifiedPredicate(_texts(first, AT_ONCE).filters, ((child, 0),))
        assert received(router, child, _reply(part)) == []
    turns = _turns(router)
    assert len(turns) == 1 + 1 + 1 + 2 + 1
    ((_, reply),) = sent(turns[-1])
    assert isinstance(reply.body, ClassifiedPredicate)
    assert reply.body.classes == ((NODE, 0), (13, AT_ONCE))
    assert reply.received == encode_body(Frame(FrameType.UR, 11, 1, 1, 1, reply.body))
