"""One router, event by event."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from router.matching.engines import factory
from router.predicates import EVERYTHING, NOTHING, Message
from router.predicates.encoded import BloomPredicate
from router.predicates.parser import parse_predicate
from router.protocol.broadcast import EPOCH_LEAD
from router.protocol.core.dispatch import EVENTS, FRAMES
from router.protocol.core.messages import MESSAGES_REMEMBERED
from router.protocol.core.router import Router
from router.protocol.events import (
    Accepted,
    Action,
    ApplicationGone,
    ControllerFrame,
    Deliver,
    Event,
    FrameReceived,
    Refused,
    Send,
    SendMessage,
    SendToController,
    ServiceEvent,
    SetPredicate,
    Started,
    Tick,
)
from router.protocol.options import RouterOptions
from router.wire.frames import Ack, AddressedMessage, Commit, Flags, Frame, FrameType, Hello, SenderRequest
from tests.support.one_router import (
    BELOW,
    CONTROL,
    FIRST,
    INCARNATION,
    NEXT_TABLE,
    NODE,
    TABLE,
    control,
    msg,
    new_router,
    ra,
    received,
    sent,
    set_up,
)
from tests.support.router_tables import predicates_of
from tests.support.tree_entries import TreeEntry, table_of, with_subtrees


def test_hello_is_repeated_until_a_table_comes() -> None:
    router = new_router(RouterOptions(hello_interval_s=2.0))
    hello = Frame(FrameType.HELLO, NODE, 1, 0, 1, Hello(INCARNATION))
    assert router.handle(Started(), 10.0) == [SendToController(hello)]
    assert router.next_deadline() == 12.0
    assert router.handle(Tick(), 11.9) == []
    assert len(router.handle(Tick(), 12.0)) == 1
    ack = Frame(FrameType.ACK, NODE, CONTROL | 1, 1, 1, Ack(FrameType.TABLE))
    assert control(router, FrameType.TABLE, 1, TABLE) == [SendToController(ack)]
    assert router.next_deadline() is None
    assert control(router, FrameType.TABLE, 1, TABLE) == [SendToController(ack)]
    assert router.epoch == 0
    assert not router.idle


def test_predicates_and_messages_wait_for_the_first_commit() -> None:
    router = new_router(RouterOptions(held_messages=1))
    router.handle(SetPredicate(1, parse_predicate("x > 1")), 0.0)
    message = Message({"x": 2})
    assert router.handle(SendMessage(1, message), 0.0) == [Accepted(1, NODE, FIRST)]
    refused = router.handle(SendMessage(1, message), 0.0)
    assert isinstance(refused[0], Refused)
    assert router.counters.dropped == {"held_queue_full": 1}
    control(router, FrameType.TABLE, 1, TABLE)
    actions = control(router, FrameType.COMMIT, 1, Commit(1))
    ack, advertisement, deliver = actions
    assert ack == SendToController(Frame(FrameType.ACK, NODE, CONTROL | 1, 1, 1, Ack(FrameType.COMMIT)))
    assert advertisement == Send(frozenset({1, 2, 3}), ra(NODE, "x > 1", hop_limit=64, seq=FIRST))
    assert deliver == Deliver((1,), NODE, FIRST, message)
    assert router.idle


def test_delivery_goes_to_the_applications_whose_own_predicates_match() -> None:
    router = set_up()
    for app, text in ((1, "x > 1"), (2, "x > 5"), (3, "y = 0")):
        router.handle(SetPredicate(app, parse_predicate(text)), 0.0)
    assert router.handle(FrameReceived(12, msg(12, x=3)), 0.0) == [Deliver((1,), 12, 1, Message({"x": 3}))]
    deliver = router.handle(FrameReceived(12, msg(12, seq=2, x=6, y=0)), 0.0)[0]
    assert isinstance(deliver, Deliver) and set(deliver.apps) == {1, 2, 3}
    router.handle(ApplicationGone(1), 0.0)
    assert router.handle(FrameReceived(12, msg(12, seq=3, x=3)), 0.0) == []
    # The sender is among the receivers of its own message.
    own = router.handle(SendMessage(2, Message({"x": 6})), 0.0)
    assert own == [Accepted(2, NODE, FIRST), Deliver((2,), NODE, FIRST, Message({"x": 6}))]


def test_p0_is_advertised_when_it_changes_and_only_then() -> None:
    router = set_up()
    first = sent(router.handle(SetPredicate(1, parse_predicate("x > 1")), 0.0))
    assert first == [({1, 2, 3}, ra(NODE, "x > 1", hop_limit=64, seq=FIRST))]
    # Covered by what another application wants: p0 stays as it is.
    assert router.handle(SetPredicate(2, parse_predicate("x > 3")), 0.0) == []
    narrower = sent(router.handle(SetPredicate(1, NOTHING), 0.0))
    assert narrower == [({1, 2, 3}, ra(NODE, "x > 3", hop_limit=64, seq=FIRST + 1))]
    assert router.handle(ApplicationGone(2), 0.0) == []
    assert predicates_of(router) == {}
    assert router.counters.ras_issued == 2
    quiet = set_up(RouterOptions(ra_on_change=False))
    assert quiet.handle(SetPredicate(1, EVERYTHING), 0.0) == []


def test_applications_that_leave_together_make_one_ra_at_the_next_tick() -> None:
    router = set_up()
    texts = [f"x = {10 * app}" for app in range(300)]
    for app, text in enumerate(texts):
        router.handle(SetPredicate(app, parse_predicate(text)), 0.0)
    issued = router.counters.ras_issued
    for app in range(1, 300):
        assert router.handle(ApplicationGone(app), 1.0) == []
    # Before the `Tick`, p0 grows without an RA, and a message has its receivers.
    assert router.handle(SetPredicate(0, parse_predicate("y = 1")), 1.0) == []
    assert router.handle(FrameReceived(12, msg(12, x=20)), 1.0) == []
    assert router.handle(FrameReceived(12, msg(12, seq=2, y=1)), 1.0) == [
        Deliver((0,), 12, 2, Message({"y": 1}))
    ]
    assert router.next_deadline() == 1.0 and not router.idle
    assert sent(router.handle(Tick(), 1.0)) == [
        ({1, 2, 3}, ra(NODE, "y = 1", hop_limit=64, seq=FIRST + issued))
    ]
    assert predicates_of(router) == {0: parse_predicate("y = 1")}
    assert router.next_deadline() is None and router.idle
    assert router.handle(Tick(), 1.0) == []


def test_the_hop_limit_ends_a_journey() -> None:
    router = set_up()
    # An RA that stopped here must not stop one that can go on.
    assert router.handle(FrameReceived(12, ra(12, "x > 1", hop_limit=1)), 0.0) == []
    assert len(sent(router.handle(FrameReceived(12, ra(12, "x > 1", hop_limit=2)), 0.0))) == 1
    router.handle(SetPredicate(1, EVERYTHING), 0.0)
    last = router.handle(FrameReceived(11, msg(11, hop_limit=1, x=9)), 0.0)
    assert [type(action) for action in last] == [Deliver]
    assert router.handle(FrameReceived(11, msg(11, hop_limit=0, x=9)), 0.0) == []
    assert router.counters.dropped == {"hop_limit": 3}


@pytest.mark.parametrize(
    ("sender", "frame", "reason"),
    [
        (11, msg(11, epoch=2, x=1), "unknown_epoch"),
        (99, msg(11, x=1), "unknown_neighbour"),
        (11, msg(NODE, x=1), "own_frame"),
        (11, msg(22, x=1), "no_tree"),
        (12, msg(11, x=1), "reverse_path"),
        (12, ra(21, "x > 1"), "reverse_path"),
        (12, Frame(FrameType.SR, 11, 1, 1, 9, SenderRequest(1)), "reverse_path"),
        (11, Frame(FrameType.SR, NODE, 1, 1, 9, SenderRequest(1)), "own_frame"),
        (11, Frame(FrameType.SR, 11, 1, 1, 9, EVERYTHING), "malformed"),
        (11, Frame(FrameType.UR, 11, 1, 1, 9, EVERYTHING, Flags.PARTIAL), "ur_unexpected"),
        (11, Frame(FrameType.UR, NODE, 1, 1, 9, EVERYTHING), "ur_unexpected"),
        (11, Frame(FrameType.UR, NODE, 1, 2, 9, EVERYTHING), "unknown_epoch"),
        (99, Frame(FrameType.UR, NODE, 1, 1, 9, EVERYTHING), "unknown_neighbour"),
        (11, Frame(FrameType.UR, NODE, 1, 1, 9, SenderRequest(1)), "malformed"),
        (11, Frame(FrameType.TABLE, NODE, 1, 2, 9, TABLE), "not_from_controller"),
        (11, Frame(FrameType.HELLO, 11, 1, 0, 1, Hello(1)), "not_from_controller"),
        (11, Frame(FrameType.MSG, 11, 1, 1, 9, EVERYTHING), "malformed"),
        (11, replace(msg(11), body=AddressedMessage((12,), Message({"x": 7}))), "malformed"),
        (11, Frame(FrameType.RA, 11, 1, 1, 9, Message({})), "malformed"),
        # A private network has the type.
        (11, Frame(FrameType.XRA, 11, 1, 1, 9, BloomPredicate(())), "not_handled"),
    ],
)
def test_what_cannot_be_used_is_counted(sender: int, frame: Frame, reason: str) -> None:
    router = set_up()
    assert router.handle(FrameReceived(sender, frame), 0.0) == []
    assert router.counters.dropped == {reason: 1}
    assert predicates_of(router) == {}


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (Frame(FrameType.TABLE, NODE + 1, 1, 2, 1, TABLE), "not_addressed"),
        (Frame(FrameType.MSG, NODE, 1, 2, 1, Message({})), "not_from_router"),
        (Frame(FrameType.TABLE, NODE, CONTROL - 2**32, 2, 1, TABLE), "other_run"),
        (Frame(FrameType.COMMIT, NODE, CONTROL + 2**32, 1, 1, Commit(1)), "other_run"),
        (Frame(FrameType.COMMIT, NODE, CONTROL, 2, 1, Commit(1)), "unknown_epoch"),
        (Frame(FrameType.COMMIT, NODE, CONTROL, 2, 1, TABLE), "malformed"),
        (Frame(FrameType.TABLE, NODE, CONTROL, 2, 1, table_of(((0, 11),), ())), "bad_table"),
        (Frame(FrameType.TABLE, NODE, CONTROL, 2, 1, table_of(((1, NODE),), ())), "bad_table"),
        (Frame(FrameType.TABLE, NODE, CONTROL, 2, 1, table_of(((1, 11), (2, 11)), ())), "bad_table"),
        *(
            (Frame(FrameType.TABLE, NODE, CONTROL, 2, 1, table_of(((1, 11), (2, 12)), entries)), "bad_table")
            for entries in (
                (TreeEntry(11, 1, (3,), 0),),
                (TreeEntry(11, 1, (1, 2), 0),),
                (TreeEntry(11, 0, (2,), 0),),
                (TreeEntry(NODE, 1, (2,), 0),),
                (TreeEntry(11, 7, (2,), 0),),
                (TreeEntry(NODE, 0, (2,), 0), TreeEntry(11, 0, (2,), 0)),
            )
        ),
    ],
)
def test_what_the_controller_cannot_have_meant_is_counted(frame: Frame, reason: str) -> None:
    router = set_up()
    # A router that is taken for another start of it says which start it is.
    hello = SendToController(Frame(FrameType.HELLO, NODE, 1, 0, 1, Hello(INCARNATION)))
    assert router.handle(ControllerFrame(frame), 0.0) == ([hello] if reason == "other_run" else [])
    assert router.counters.dropped == {reason: 1}
    assert router.epoch == 1


def test_each_frame_of_a_router_and_each_event_has_a_row() -> None:
    """Types to the controller have none, nor has RECEIPT, which a layer takes."""
    assert set(FrameType) - FRAMES.keys() == {FrameType.HELLO, FrameType.ACK, FrameType.RECEIPT}
    assert set(get_args(Event)) - {ServiceEvent} <= EVENTS.keys()


@pytest.mark.parametrize("has_epoch", [False, True])
def test_a_commit_of_epoch_zero_asks_for_an_acknowledgement_and_changes_nothing(has_epoch: bool) -> None:
    router = set_up() if has_epoch else new_router()
    question = Frame(FrameType.COMMIT, NODE, CONTROL | 9, 0, 1, Commit(0))
    answer = SendToController(
        Frame(FrameType.ACK, NODE, CONTROL | 9, int(has_epoch), 1, Ack(FrameType.COMMIT))
    )
    assert router.handle(ControllerFrame(question), 0.0) == [answer]
    assert (router.epoch, router.counters.dropped) == (int(has_epoch), {})


def test_a_new_epoch() -> None:
    router = set_up(RouterOptions(readvertise_jitter_s=1.0))
    router.handle(SetPredicate(1, parse_predicate("x > 1")), 0.0)
    router.handle(FrameReceived(11, ra(11, "y > 1")), 0.0)
    router.handle(FrameReceived(13, ra(13, "y > 2")), 0.0)
    control(router, FrameType.TABLE, 2, NEXT_TABLE, 10.0)
    # Others may have committed already: their frames travel on the new tables.
    assert [i for i, _ in sent(router.handle(FrameReceived(11, ra(11, "y > 1", epoch=2)), 10.0))] == [{2}]
    assert router.epoch == 1
    actions = control(router, FrameType.COMMIT, 2, Commit(1), 10.0)
    assert [type(action) for action in actions] == [SendToController]
    assert router.epoch == 2
    # The entry of the removed interface is deleted; the others and p0 stay.
    assert predicates_of(router) == {0: parse_predicate("x > 1"), 1: parse_predicate("y > 1")}
    due = router.next_deadline()
    assert due is not None and 10.0 <= due <= 11.0
    assert not router.idle
    again = sent(router.handle(Tick(), due))
    assert again == [({1, 2}, ra(NODE, "x > 1", epoch=2, hop_limit=64, seq=FIRST + 1))]
    assert router.next_deadline() is None
    # Frames of the epoch before are still forwarded, until it is retired.
    assert len(sent(router.handle(FrameReceived(12, msg(12, y=3)), 12.0))) == 1
    control(router, FrameType.TABLE, 3, NEXT_TABLE, 13.0)
    control(router, FrameType.COMMIT, 3, Commit(2), 13.0)
    assert router.handle(FrameReceived(12, msg(12, y=3)), 14.0) == []
    assert router.counters.dropped == {"unknown_epoch": 1}
    # A commit or table that comes late is acknowledged, and changes nothing.
    assert len(control(router, FrameType.COMMIT, 2, Commit(1), 14.0)) == 1
    assert len(control(router, FrameType.TABLE, 1, TABLE, 14.0)) == 1
    assert router.epoch == 3
    assert router.handle(FrameReceived(12, msg(12, y=3)), 14.0) == []


def test_an_acknowledgement_names_the_epoch_of_the_router() -> None:
    router = set_up()
    ahead = 1 + EPOCH_LEAD
    assert control(router, FrameType.TABLE, ahead + 1, TABLE) == []
    assert router.counters.dropped == {"epoch_ahead": 1}
    assert acknowledged(control(router, FrameType.TABLE, 2, TABLE)) == 2
    # Frames that the controller never sent.
    assert acknowledged(control(router, FrameType.TABLE, ahead, TABLE)) == ahead
    assert acknowledged(control(router, FrameType.TABLE, 3, TABLE)) == ahead
    assert acknowledged(control(router, FrameType.COMMIT, 3, Commit(1))) == 3
    assert acknowledged(control(router, FrameType.COMMIT, ahead, Commit(ahead))) == ahead
    # Frames that it did send, and that come too late for this router.
    assert acknowledged(control(router, FrameType.TABLE, 4, TABLE)) == ahead
    assert acknowledged(control(router, FrameType.COMMIT, 4, Commit(1))) == ahead
    assert router.epoch == ahead


def acknowledged(actions: list[Action]) -> int:
    """The epoch of the one ACK among the actions."""
    (epoch,) = (
        action.frame.epoch
        for action in actions
        if isinstance(action, SendToController) and action.frame.type is FrameType.ACK
    )
    return epoch


def test_periodic_advertisements() -> None:
    router = new_router(RouterOptions(ra_on_change=False, ra_period_s=10.0))
    control(router, FrameType.TABLE, 1, TABLE, 100.0)
    control(router, FrameType.COMMIT, 1, Commit(1), 100.0)
    first = router.next_deadline()
    assert first is not None and 100.0 <= first <= 110.0
    assert router.handle(Tick(), first) == []
    router.handle(SetPredicate(1, EVERYTHING), first)
    assert router.next_deadline() == first + 10.0
    assert len(sent(router.handle(Tick(), first + 10.0))) == 1
    # After several missed periods, the router sends one RA.
    assert len(sent(router.handle(Tick(), first + 50.0))) == 1
    assert router.next_deadline() == first + 60.0
    assert router.idle


def test_an_incarnation_has_32_bits() -> None:
    with pytest.raises(ValueError, match="incarnation"):
        Router(1, RouterOptions(), factory("naive"), 2**32)


def _router(scheme: str = "pif") -> Router:
    router = set_up(RouterOptions(scheme=scheme), with_subtrees(TABLE, BELOW))
    router.handle(SetPredicate(1, EVERYTHING), 0.0)
    return router


def _delivered(router: Router, number: int) -> list[int]:
    actions = received(router, 11, msg(11, seq=number, x=1))
    return [action.seq for action in actions if isinstance(action, Deliver)]


def test_a_replay_goes_on_to_the_neighbours_that_get_the_message() -> None:
    router = _router("flooding")
    frame = msg(11, seq=7, x=1)
    first, second = received(router, 11, frame), received(router, 11, frame)
    assert [each for each in first if not isinstance(each, Deliver)] == second != []


@pytest.mark.parametrize("numbers", [[5, 1, 2**32 + 1, 4, 2, 3], [2**64 - 1, 1]], ids=["overtaken", "forged"])
def test_a_message_is_delivered_whatever_numbers_came_before(numbers: list[int]) -> None:
    router = _router()
    assert [number for each in numbers for number in _delivered(router, each)] == numbers
    assert router.counters.dropped == {}


def test_a_message_of_the_node_itself_is_delivered_with_each_request() -> None:
    router = _router()
    actions = [router.handle(SendMessage(1, Message({"x": 1})), 0.0) for _ in range(3)]
    assert [sum(isinstance(each, Deliver) for each in answer) for answer in actions] == [1, 1, 1]


def test_the_messages_that_were_delivered_last_are_remembered_and_no_others() -> None:
    router = _router()
    numbers = range(1, MESSAGES_REMEMBERED + 2)
    assert [number for each in numbers for number in _delivered(router, each)] == [*numbers]
    assert [number for each in (2, 1) for number in _delivered(router, each)] == [1]
