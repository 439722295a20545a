"""The scheme `pif-classes` at one router: classes of receivers, and URs that no router sends."""

from __future__ import annotations

from router.predicates.model import Filter, Predicate
from router.predicates.parser import parse_predicate
from router.protocol.core.router import Router
from router.protocol.events import RequestUpdate
from router.protocol.options import RouterOptions
from router.wire.frames import ClassifiedPredicate, Frame, FrameType
from tests.support.one_router import BELOW, NODE, TABLE, msg, ra, received, sent, set_up
from tests.support.tree_entries import with_subtrees


def new() -> Router:
    return set_up(RouterOptions(scheme="pif-classes", sr_timeout_s=1.0), with_subtrees(TABLE, BELOW))


def rows(router: Router) -> dict[tuple[int, str], str]:
    return {
        (row["interface"], row["scope"]): row["predicate"] for row in (r.as_json() for r in router.rows())
    }


def predicate(*parts: tuple[int, str]) -> Predicate:
    filters: list[Filter] = []
    classes: list[tuple[int, int]] = []
    for node, text in parts:
        classes.append((node, len(filters)))
        filters += parse_predicate(text).filters
    return ClassifiedPredicate(tuple(filters), tuple(classes))


def reply(seq: int, body: Predicate) -> Frame:
    return Frame(FrameType.UR, NODE, seq, 1, 1, body)


def asked(router: Router) -> int:
    ((_, frame),) = sent(router.handle(RequestUpdate(frozenset({1})), 0.0))
    return frame.seq


def test_a_message_meets_the_classes_that_its_source_has_below() -> None:
    router = new()
    received(router, 11, ra(11, "x = 1"))
    received(router, 11, ra(21, "x = 2"))
    assert rows(router) == {(1, "sources 5 12 13"): "x = 1", (1, "sources 5 12"): "x = 2"}
    assert [to for to, _ in sent(received(router, 12, msg(12, x=2)))] == [{1}]
    # Node 21 is not below this router on the tree of 13, where pif would send the message in vain.
    assert sent(received(router, 13, msg(13, x=2))) == []
    assert router.counters.messages_unwanted == 1


def test_a_reply_replaces_each_class_by_itself() -> None:
    router = new()
    received(router, 11, ra(11, "x = 1 or x = 2"))
    received(router, 11, ra(21, "x = 1 or x = 2"))
    received(router, 11, reply(asked(router), predicate((11, "x = 1"), (21, "x = 2"))))
    assert rows(router) == {(1, "sources 5 12 13"): "x = 1", (1, "sources 5 12"): "x = 2"}


def test_a_reply_without_classes_is_of_every_class() -> None:
    router = new()
    received(router, 11, reply(asked(router), parse_predicate("x = 3")))
    assert rows(router) == {(1, "sources 5 12 13"): "x = 3", (1, "sources 5 12"): "x = 3"}


def test_a_part_about_a_node_that_is_not_behind_its_sender_is_dropped() -> None:
    router = new()
    body = predicate((11, "x = 1"), (12, "x = 2"), (99, "x = 3"), (NODE, "x = 4"))
    received(router, 11, reply(asked(router), body))
    assert rows(router) == {(1, "sources 5 12 13"): "x = 1"}
    assert router.counters.dropped == {"ur_class": 3}
