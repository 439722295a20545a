"""Deliveries to applications whose predicates take long to compare with a message."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.content.bloom import Bloom
from router.content.plain import Plain
from router.predicates import semantics
from router.predicates.encoded.model import BloomFilter, BloomMessage, BloomPredicate, Suite
from router.predicates.model import NOTHING, Constraint, Message, Predicate
from router.predicates.parser import parse_predicate
from router.protocol import messages
from router.protocol.core.router import Router
from router.protocol.events import (
    Accepted,
    Action,
    ApplicationGone,
    ControllerFrame,
    Deliver,
    DeliveryPostponed,
    Event,
    FrameReceived,
    Refused,
    SendMessage,
    SetPredicate,
    Tick,
)
from router.protocol.options import RouterOptions
from router.protocol.routing import RoutingTable
from router.protocol.services.applications import ApplicationPredicates
from router.recording.file import Origin, Recorder
from router.recording.replay import check
from router.wire.frames import Commit, EncodedMessage, Frame, FrameType
from router.wire.message import encode_message
from tests.support.encoded_cases import MESSAGES, PREDICATES
from tests.support.one_router import CONTROL, INCARNATION, NODE, TABLE, msg, ra, received, sent, set_up

#: Substrings that are not in the text of the messages, and one that is.
MANY = " or ".join(f's ** "z{number}z"' for number in range(500))
LONG = "a" * 20_000


@pytest.fixture
def router() -> Router:
    """Applications 1 and 2 have many patterns; application 3 gets all messages with `q`."""
    router = set_up(RouterOptions(sr_policy="never"))
    for app, text in ((1, f'{MANY} or s ** "ab"'), (2, MANY), (3, "q any integer")):
        router.handle(SetPredicate(app, parse_predicate(text)), 0.0)
    ticks(router)
    return router


def ticks(router: Router) -> list[list[Action]]:
    """The actions of each turn until the router has nothing to do."""
    turns = []
    while (due := router.next_deadline()) is not None and due <= 0.0:
        turns.append(router.handle(Tick(), 0.0))
    return turns


def delivered(turns: list[list[Action]]) -> list[tuple[int, tuple[int, ...]]]:
    return [(each.seq, each.apps) for turn in turns for each in turn if isinstance(each, Deliver)]


def test_a_long_message_is_compared_in_turns_and_others_wait_behind_it(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = [0]
    exact = semantics.matches_constraint

    def counted(constraint: Constraint, message: Message) -> bool:
        compared[0] += "s" in message
        return exact(constraint, message)

    monkeypatch.setattr(semantics, "matches_constraint", counted)

    received(router, 12, ra(12, "s any string"))
    actions = received(router, 11, msg(11, seq=1, s=LONG + "b"))
    # It goes on to other routers at once.
    assert [frame.seq for _, frame in sent(actions)] == [1]
    assert router.delivers
    assert not router.idle
    most = 0
    own = router.handle(SendMessage(3, Message({"q": 1})), 0.0)
    assert [type(each) for each in own] == [Accepted, DeliveryPostponed]
    assert (
        delivered(
            [received(router, 11, msg(11, seq=2, q=2)), received(router, 11, msg(11, seq=1, s=LONG + "b"))]
        )
        == []
    )
    turns = []
    while router.delivers:
        compared[0] = 0
        turns.append(router.handle(Tick(), 0.0))
        most = max(most, compared[0])
    assert len(turns) > 10
    # Some 2 ms: 10,000 steps, of which a comparison with this text takes 314.
    assert most <= 10_000 // 314 + 3
    assert delivered(turns) == [(1, (1,)), (own[0].seq, (3,)), (2, (3,))]
    assert router.counters.dropped == {"message_duplicate": 1}
    assert router.idle
    # A further copy is not compared at all.
    compared[0] = 0
    assert delivered([received(router, 11, msg(11, seq=1, s=LONG + "b"))]) == []
    assert (compared[0], router.idle) == (0, True)
    assert router.counters.dropped == {"message_duplicate": 2}


def test_a_message_that_nobody_gets_is_counted_when_that_is_known(router: Router) -> None:
    # The engine finds that p0 may match it; no application's predicate does.
    received(router, 11, msg(11, seq=1, s=LONG + "b"))
    router.handle(ApplicationGone(1), 0.0)
    assert router.counters.messages_unwanted == 0
    assert delivered(ticks(router)) == []
    assert router.counters.messages_unwanted == 1
    assert router.counters.messages_delivered == 0


def test_a_message_that_applications_send_is_refused_if_too_many_wait(router: Router) -> None:
    router.handle(SendMessage(3, Message({"s": LONG + "b"})), 0.0)
    long = Message({"s": "a" * 60_000, "t": "a" * 60_000})
    taken = 0
    while not isinstance((answer := router.handle(SendMessage(3, long), 0.0)[0]), Refused):
        taken += 1
        assert taken < 1_000
    assert "too long" in answer.reason
    assert router.counters.dropped == {"held_queue_full": 1}


def test_a_message_that_has_waited_is_compared_in_turns_with_what_was_declared_meanwhile(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it came, there was little to compare it with."""
    router.handle(ApplicationGone(1), 0.0)
    router.handle(ApplicationGone(2), 0.0)
    router.handle(SetPredicate(1, parse_predicate('s ** "ab"')), 0.0)
    ticks(router)
    steps = iter([None] * 200)
    with monkeypatch.context() as patch:
        patch.setattr(router._service, "search", lambda _: steps)
        received(router, 11, msg(11, seq=1, s="ab"))
        received(router, 11, msg(11, seq=2, s=LONG + "b"))
    router.handle(SetPredicate(2, parse_predicate(f'{MANY} or s ** "b"')), 0.0)
    # Steps of the change of p0 and of the delivery take turns.
    while not delivered([router.handle(Tick(), 0.0)]):
        assert router.delivers
    turns = []
    while router.delivers:
        turns.append(router.handle(Tick(), 0.0))
    assert len(turns) > 5
    assert delivered(turns) == [(2, (1, 2))]


def test_copies_that_wait_are_not_compared(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[Message] = []
    search = router._service.search

    def counted(message: Message) -> Iterator[None] | None:
        searches.append(message)
        return search(message)

    monkeypatch.setattr(router._service, "search", counted)
    turns = [received(router, 11, msg(11, seq=1, s=LONG + "b")) for _ in range(5)]
    assert delivered([*turns, *ticks(router)]) == [(1, (1,))]
    assert len(searches) == 1
    assert router.counters.dropped == {"message_duplicate": 4}


def test_a_router_says_when_it_should_take_no_more_messages(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "_MOST_BYTES", 220_000)
    for seq in range(5):
        assert not router.full
        received(router, 11, msg(11, seq=seq, s=LONG + "b"))
    assert not router.full
    received(router, 11, msg(11, seq=9, s=LONG + "b"))
    assert router.full
    # The messages of applications have as much room again.
    assert isinstance(router.handle(SendMessage(3, Message({"s": LONG + "b"})), 0.0)[0], Accepted)
    while router.full:
        router.handle(Tick(), 0.0)
    assert router.delivers
    ticks(router)
    monkeypatch.setattr(messages, "_MOST_BYTES", 10**9)
    monkeypatch.setattr(messages, "_MOST_WAITING", 4)
    for seq in (11, 12):
        assert not router.full
        received(router, 11, msg(11, seq=seq, s=LONG + "b"))
    assert router.full


def test_the_names_of_attributes_count_where_messages_wait(router: Router) -> None:
    """1,000 names of 255 characters with empty values counted as no bytes: 5,000 such messages could wait."""
    received(router, 11, msg(11, seq=1, s=LONG + "b"))
    body = encode_message(Message({f"{name:04}{'a' * 251}": "" for name in range(999)} | {"q": 1}))
    tracemalloc.start()
    try:
        seq = 1
        while not router.full:
            seq += 1
            read = EncodedMessage(bytes(bytearray(body)))
            received(router, 11, replace(msg(11, seq=seq), body=read))
            assert seq < 100
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < messages._MOST_BYTES
    ticks(router)
    assert (router.full, router._messages._bytes) == (False, 0)


def test_a_short_message_is_delivered_in_its_turn(router: Router) -> None:
    assert delivered([received(router, 11, msg(11, seq=1, s="ab"))]) == [(1, (1,))]
    assert not router.delivers


def test_a_predicate_that_is_gone_weighs_nothing(router: Router) -> None:
    for app in (1, 2):
        router.handle(SetPredicate(app, NOTHING), 0.0)
    ticks(router)
    router.handle(SetPredicate(1, parse_predicate('s ** "ab"')), 0.0)
    assert delivered([received(router, 11, msg(11, seq=1, s=LONG + "b"))]) == [(1, (1,))]
    assert not router.delivers


@given(st.lists(PREDICATES, max_size=5), MESSAGES)
def test_a_search_in_parts_finds_whom_a_search_at_once_finds(
    declared: list[Predicate], message: Message
) -> None:
    content = Plain()
    table = ApplicationPredicates(RoutingTable(None, content), content)
    for app, predicate in enumerate(declared):
        table.set(app, predicate)
    at_once = table.selecting(message)
    for _ in table._search(message):
        pass
    assert table.selecting(message) == at_once
    # The answer is for one question.
    assert table._found is None


def test_encoded_messages_are_compared_in_turns() -> None:
    suite = Suite(1, 64, 4, 1)
    content = Bloom()
    table = ApplicationPredicates(RoutingTable(None, content), content)
    for app in range(3):
        filters = [BloomFilter(suite, 1 << 63 | app << 40 | number) for number in range(4_000)]
        table.set(app, BloomPredicate([*filters, BloomFilter(suite, 1 << app)]))
    message = BloomMessage(suite, 0b101)
    search = table.search(message)
    assert search is not None
    assert sum(1 for _ in search) >= 2
    assert table.selecting(message) == (0, 2)


def test_a_long_message_that_breaks_the_format_is_dropped(router: Router) -> None:
    body = encode_message(Message({"s": LONG + "b"}))[:-1]
    frame = Frame(FrameType.MSG, 11, 1, 1, 9, EncodedMessage(body))
    assert router.handle(FrameReceived(11, frame), 0.0) == []
    assert not router.delivers


def test_a_replay_delivers_at_once_what_compiled_code_has_delivered_at_once(tmp_path: Path) -> None:
    """The core alone postpones the delivery; a recording tells how it was."""
    path = tmp_path / "r.rec"
    origin = Origin(NODE, RouterOptions(sr_policy="never"), "counting", 1, INCARNATION)
    recorder, live = Recorder(path, origin), origin.router().core

    def played(event: Event, at_once: bool = False) -> list[Action]:
        recorder.event(event, 0.0)
        actions = live.handle(event, 0.0)
        if at_once:
            actions = [*actions[:-1], *live.deliver_waiting()]
        recorder.actions(event, actions)
        return actions

    for kind, body in ((FrameType.TABLE, TABLE), (FrameType.COMMIT, Commit(1))):
        played(ControllerFrame(Frame(kind, NODE, CONTROL | 1, 1, 1, body)))
    played(SetPredicate(1, parse_predicate(f'{MANY} or s ** "ab"')))
    while live.next_deadline() == 0.0:
        played(Tick())
    long = FrameReceived(11, msg(11, seq=1, s=LONG + "b"))
    assert delivered([played(long, at_once=True)]) == [(1, (1,))]
    assert delivered([played(FrameReceived(11, msg(11, seq=2, s=LONG + "b")))]) == []
    turns = []
    while live.delivers:
        turns.append(played(Tick()))
    assert delivered(turns) == [(2, (1,))]
    recorder.close()
    assert check(path).difference is None
