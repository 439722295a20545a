"""Schemes with identified RAs and classes of receivers at one router, and frames that no router sends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.predicates import Filter, Message, Predicate
from router.predicates.parser import parse_predicate
from router.protocol.core.router import Router
from router.protocol.events import Accepted, Deliver, RequestUpdate, SendMessage, SetPredicate, Tick
from router.protocol.options import RouterOptions
from router.protocol.schemes.per_interface import topics_of
from router.protocol.schemes.per_source import PerSource
from router.protocol.schemes.receiver_partitioning import clusters
from router.wire.frames import AddressedMessage, ClassifiedPredicate, Flags, Frame, FrameType, SenderRequest
from tests.support.one_router import BELOW, NODE, TABLE, control, msg, new_router, ra, received, sent, set_up
from tests.support.tree_entries import TreeEntry, entries_of, table_of, with_subtrees

DRP = RouterOptions(scheme="drp")


def identified(issuer: int, text: str, seq: int = 1) -> Frame:
    return replace(ra(issuer, text, seq=seq), flags=Flags.IDENTIFIED)


@pytest.mark.parametrize(
    ("frame", "reason"), [(ra(21, "x = 1"), "ra_unidentified"), (msg(11, x=7), "malformed")]
)
def test_frames_without_issuer_or_destinations_are_dropped(frame: Frame, reason: str) -> None:
    router = set_up(DRP)
    assert received(router, 11, frame) == []
    assert router.counters.dropped == {reason: 1}


@pytest.mark.parametrize("scheme", ["psf", "ips", "pif-classes"])
def test_a_table_without_subtrees_is_refused(scheme: str) -> None:
    router = new_router(RouterOptions(scheme=scheme))
    assert control(router, FrameType.TABLE, 1, TABLE) == []
    assert router.counters.dropped == {"bad_table": 1}


@pytest.mark.parametrize("scheme", ["pif", "pif-classes", "psf", "ips", "drp"])
def test_a_router_that_no_tree_has_takes_messages_of_its_applications(scheme: str) -> None:
    router = set_up(RouterOptions(scheme=scheme), with_subtrees(table_of((), ()), {}))
    router.handle(SetPredicate(1, parse_predicate("x = 7")), 0.0)
    actions = router.handle(SendMessage(1, Message({"x": 7})), 0.0)
    assert [type(action) for action in actions] == [Accepted, Deliver]


def test_entries_of_sources_that_share_a_disjunction_are_widened_each() -> None:
    """Nodes 12 and 22 are of one class; the second advertises when both sources have their entries."""
    table = table_of(((1, 11), (2, 12), (3, 13)), (*entries_of(TABLE), TreeEntry(22, 2, (1,), 3)))
    below = {source: nodes | ({22} if 12 in nodes else set()) for source, nodes in BELOW.items()}
    router = set_up(RouterOptions(scheme="psf"), with_subtrees(table, below | {22: below[12]}))
    assert len(table.classes) == len(TABLE.classes)
    seq = 0
    for receiver, x in ((12, 1), (22, 2)):
        received(router, 12, identified(receiver, f"x = {x}"))
        for source in (11, 21):
            for sent_x in (1, 2):
                seq += 1
                actions = received(router, 11, msg(source, seq=seq, x=sent_x))
                assert [interfaces for interfaces, _ in sent(actions)] == ([{2}] if sent_x <= x else [])


def test_disjunctions_that_no_entry_asks_for_are_forgotten() -> None:
    """Also where a class behind the child has its first receiver."""
    router = set_up(RouterOptions(scheme="psf"), with_subtrees(TABLE, BELOW))
    for seq, receiver in enumerate((21, 11, 13, 12)):
        received(router, {21: 11}.get(receiver, receiver), identified(receiver, f"x = {receiver}"))
        received(router, 12, msg(12, seq=10 + seq, x=receiver))
        received(router, 11, msg(11, seq=20 + seq, x=receiver))
    scheme = router._scheme
    assert isinstance(scheme, PerSource)
    (epoch,) = scheme._epochs.values()
    assert epoch.unions.keys() == {entry.classes for entry in epoch.entries.values()}


def test_p0_decides_about_delivery_at_a_destination() -> None:
    router = set_up(DRP)
    router.handle(SetPredicate(1, parse_predicate("x > 9")), 0.0)
    assert received(router, 11, replace(msg(11), body=AddressedMessage((NODE,), Message({"x": 7})))) == []
    assert router.counters.messages_unwanted == 1


def test_a_destination_to_which_no_child_leads_is_counted_and_no_neighbour_gets_it() -> None:
    """Node 21 is beyond the neighbour that the message came from, node 99 is unknown."""
    router = set_up(DRP)
    message = Message({"x": 7})
    actions = received(router, 11, replace(msg(11), body=AddressedMessage((12, 21, 99), message)))
    assert [(interfaces, frame.body) for interfaces, frame in sent(actions)] == [
        ({2}, AddressedMessage((12,), message))
    ]
    assert router.counters.dropped == {"destination": 2}


def test_each_receiver_of_unicast_has_a_copy() -> None:
    router = set_up(RouterOptions(scheme="unicast"))
    for issuer in (11, 12, 21):
        received(router, 12 if issuer == 12 else 11, identified(issuer, "x = 7"))
    copies = []
    for interfaces, frame in sent(router.handle(SendMessage(1, Message({"x": 7})), 0.0)):
        assert isinstance(frame.body, AddressedMessage)
        copies.append((interfaces, frame.body.destinations))
    assert copies == [({1}, (11,)), ({1}, (21,)), ({2}, (12,))]


def router_with_classes() -> Router:
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


def test_a_reply_without_classes_is_of_every_class() -> None:
    router = router_with_classes()
    received(router, 11, reply(asked(router), parse_predicate("x = 3")))
    assert rows(router) == {(1, "sources 5 12 13"): "x = 3", (1, "sources 5 12"): "x = 3"}


def test_a_part_about_a_node_that_is_not_behind_its_sender_is_dropped() -> None:
    router = router_with_classes()
    body = predicate((11, "x = 1"), (12, "x = 2"), (99, "x = 3"), (NODE, "x = 4"))
    received(router, 11, reply(asked(router), body))
    assert rows(router) == {(1, "sources 5 12 13"): "x = 1"}
    assert router.counters.dropped == {"ur_class": 3}


def test_groups_are_those_of_the_least_waste() -> None:
    """Nodes that ask for much do not draw all others into their group."""
    asked = [[*range(9)], [0, 9], [9, 0], [1, 8], [9]]
    texts = (" or ".join(f"x = {x}" for x in topics) for topics in asked)
    interests = tuple((node, frozenset(parse_predicate(text))) for node, text in enumerate(texts))
    assert clusters(interests, 5) == tuple(frozenset({node}) for node in range(5))
    assert [*map(set, clusters(interests, 3))] == [{0}, {1, 2, 4}, {3}]
    assert clusters(interests, 1) == (frozenset(range(5)),)


@pytest.mark.parametrize("groups", [4, 5])
def test_a_message_names_all_members_of_a_group_with_a_receiver(groups: int) -> None:
    """Of five nodes, two ask for the same topic; their filters differ."""
    router = set_up(RouterOptions(scheme="multicast", scheme_options={"groups": groups}))
    for issuer, text in ((11, "x = 1 or y = 1"), (12, "x = 1 and z > 1"), (21, "x = 2"), (13, "x = 3")):
        received(router, 11 if issuer == 21 else issuer, identified(issuer, text))
    router.handle(SetPredicate(1, parse_predicate("x = 4")), 0.0)

    def named(message: Message) -> set[int]:
        actions = router.handle(SendMessage(1, message), 0.0)
        bodies = [frame.body for _, frame in sent(actions)]
        return {node for body in bodies if isinstance(body, AddressedMessage) for node in body.destinations}

    assert named(Message({"x": 1, "z": 2})) == {11, 12}
    assert named(Message({"y": 1})) == ({11, 12} if groups == 4 else {11})
    # Groups are those of the present predicates.
    received(router, 12, identified(12, "x = 3", seq=2))
    assert named(Message({"y": 1})) == {11}
    assert named(Message({"x": 3})) == {12, 13}


def test_an_advertisement_and_a_reply_of_topics_have_the_first_equality_of_each_filter_once() -> None:
    asked = parse_predicate('s = "a" and p > 1.0 or p < 5.0 and s = "a" or s = "a" and p < 0.5')
    topic = parse_predicate('s = "a"')
    assert topics_of(Predicate((*asked, *parse_predicate("p > 2.0")))) == Predicate((*topic, Filter()))
    router = set_up(RouterOptions(scheme="topics"))
    actions = router.handle(SetPredicate(1, asked), 0.0)
    assert [frame.body for _, frame in sent(actions)] == [topic]
    asking = Frame(FrameType.SR, 12, 1, 1, 9, SenderRequest(1_000_000))
    replies = sent(received(router, 12, asking)) + sent(router.handle(Tick(), 2.0))
    assert [frame.body for _, frame in replies if frame.type is FrameType.UR] == [topic]
