"""Frames of issuers at a router: those of earlier runs, and what a router without signatures does not do."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from router.matching.factory import factory
from router.predicates.model import EVERYTHING, Message
from router.predicates.parser import parse_predicate
from router.protocol import confirmation
from router.protocol.events import ControllerFrame, Deliver, FrameReceived, Send, SetPredicate, Tick
from router.protocol.messages import Messages
from router.protocol.options import RouterOptions
from router.protocol.router import Router
from router.recording.file import Origin
from router.security.signatures import PublicKeys, Signer
from router.security.windows import Windows
from router.wire.addresses import CONTROLLER
from router.wire.frames import COUNTER_BITS, Ack, Body, Commit, Flags, Frame, FrameType, SenderRequest
from tests.support.guarded import private_key, public_keys
from tests.support.one_router import CONTROL, INCARNATION, NODE, TABLE, msg, set_up

FLOOR = INCARNATION << COUNTER_BITS
#: Number of an issuer of the run before.
EARLIER = (INCARNATION - 1) << COUNTER_BITS | 5


def signed(frame: Frame, owner: int) -> Frame:
    return Signer(owner, private_key(owner)).signed(frame)


def in_epoch(router: Router) -> Router:
    """The router in epoch 1, with an application that gets all messages."""
    for kind, body in ((FrameType.TABLE, TABLE), (FrameType.COMMIT, Commit(1))):
        frame = signed(Frame(kind, NODE, CONTROL | 1, 1, 1, body), CONTROLLER)
        router.handle(ControllerFrame(frame), 0.0)
    assert router.epoch == 1
    router.handle(SetPredicate(1, EVERYTHING), 0.0)
    return router


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (FrameType.MSG, Message({"a": 1})),
        (FrameType.RA, EVERYTHING),
        (FrameType.SR, SenderRequest(10_000_000)),
    ],
    ids=["MSG", "RA", "SR"],
)
def test_nothing_of_an_earlier_run_under_the_same_keys_is_taken(kind: FrameType, body: Body) -> None:
    """Its issuer signed it, and epochs of all runs have the same numbers."""
    keys = PublicKeys(public_keys(), FLOOR)
    router = in_epoch(Router(NODE, RouterOptions(), factory("counting"), INCARNATION, random.Random(1), keys))
    rows = router.rows()
    assert router.handle(FrameReceived(11, signed(Frame(kind, 21, EARLIER, 1, 9, body), 21)), 1.0) == []
    assert router.counters.dropped == {"issuer_replayed": 1}
    assert router.rows() == rows
    # The first number of this run is taken.
    assert router.handle(FrameReceived(11, signed(Frame(kind, 21, FLOOR | 1, 1, 9, body), 21)), 1.0)
    assert router.counters.dropped == {"issuer_replayed": 1}


@pytest.mark.parametrize("newer", [1, 1_024, 50_000])
def test_an_ra_that_newer_ones_have_overtaken_is_no_replay(newer: int) -> None:
    """It was lost, its sender repeats it; the router never learns of its predicate from any other frame."""
    router = in_epoch(
        Router(
            *(NODE, RouterOptions(), factory("counting"), INCARNATION, random.Random(1)),
            PublicKeys(public_keys(), FLOOR),
        )
    )
    late, last = FLOOR + 1, FLOOR + 1 + newer
    overtaken = signed(Frame(FrameType.RA, 21, late, 1, 9, parse_predicate("x = 1")), 21)
    router.handle(
        FrameReceived(11, signed(Frame(FrameType.RA, 21, last, 1, 9, parse_predicate("x = 2")), 21)), 1.0
    )
    router.handle(FrameReceived(11, overtaken), 2.0)
    assert router.counters.dropped == {}
    assert router.counters.ras_received == 2
    router.handle(FrameReceived(11, overtaken), 3.0)
    assert router.counters.dropped == {"issuer_replayed": 1}


def test_a_restarted_router_knows_where_the_run_began(tmp_path: Path) -> None:
    """Issuers that have not restarted go on below the incarnation of a router that has."""
    Windows(tmp_path / "windows", FLOOR)
    assert Windows(tmp_path / "windows", (INCARNATION + 1) << COUNTER_BITS).floor == FLOOR


def test_a_replay_refuses_what_the_live_router_has_refused() -> None:
    origin = Origin(NODE, RouterOptions(), "counting", 1, INCARNATION, public_keys().hex(), FLOOR)
    router = in_epoch(origin.router())
    frame = signed(Frame(FrameType.MSG, 21, EARLIER, 1, 9, Message({"a": 1})), 21)
    assert router.handle(FrameReceived(11, frame), 1.0) == []
    assert router.counters.dropped == {"issuer_replayed": 1}


def test_without_signatures_a_delivery_does_no_work_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    router = set_up()
    router.handle(SetPredicate(1, EVERYTHING), 0.0)
    monkeypatch.delattr(Messages, "_neighbour")
    actions = router.handle(FrameReceived(11, msg(21)), 0.0)
    assert [(each.source, each.seq) for each in actions if isinstance(each, Deliver)] == [(21, 1)]


def test_a_copy_that_was_sent_again_is_confirmed_and_is_no_replay() -> None:
    """The RECEIPT of a genuine frame may be lost; a frame of a rogue is never confirmed."""
    keys = PublicKeys(public_keys(), FLOOR)
    options = RouterOptions(reliable_control=True)
    router = in_epoch(Router(NODE, options, factory("counting"), INCARNATION, random.Random(1), keys))
    number = FLOOR | 1
    unsigned = Frame(FrameType.RA, 21, number, 1, 9, EVERYTHING, Flags.RELIABLE)
    assert router.handle(FrameReceived(11, unsigned), 1.0) == []
    assert router.counters.dropped == {"unsigned": 1}
    receipt = Send(frozenset({1}), Frame(FrameType.RECEIPT, 21, number, 1, 1, Ack(FrameType.RA)))
    for _ in range(2):
        assert router.handle(FrameReceived(11, signed(unsigned, 21)), 1.0)[0] == receipt
    assert router.counters.control_copies == 1
    assert "issuer_replayed" not in router.counters.dropped


def _reading(keys: PublicKeys) -> Router:
    """A router that reads RAs in turns, one at a time, and cannot widen those for which it has no room."""
    options = RouterOptions(reliable_control=True, covering="none", turn_weight=5, predicates_waiting=1)
    engine = factory("counting")
    return in_epoch(Router(NODE, options, engine, INCARNATION, random.Random(1), keys))


def _large_ra(number: int) -> Frame:
    body = parse_predicate(" or ".join(f"x = {value}" for value in range(10)))
    return signed(Frame(FrameType.RA, 21, FLOOR | number, 1, 9, body, Flags.RELIABLE), 21)


def test_a_frame_for_which_there_was_no_room_is_taken_when_it_is_sent_again() -> None:
    """Its number is not used up: a second sending would be refused as a replay, and the RA lost for good."""
    router = _reading(PublicKeys(public_keys(), FLOOR))
    first, second = _large_ra(1), _large_ra(2)
    router.handle(FrameReceived(11, first), 1.0)
    assert router.handle(FrameReceived(11, second), 1.0) == []
    assert router.counters.dropped == {"intake_full": 1}
    while not any(isinstance(each, Send) and each.frame.issuer == 21 for each in router.handle(Tick(), 1.0)):
        pass
    receipt = Send(frozenset({1}), Frame(FrameType.RECEIPT, 21, second.seq, 1, 1, Ack(FrameType.RA)))
    assert router.handle(FrameReceived(11, second), 2.0) == [receipt]
    assert router.counters.dropped == {"intake_full": 1}


def test_a_copy_that_comes_after_many_other_frames_counts_as_a_replay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An honest neighbour sends it, whose RECEIPTs were lost: the reason alone accuses nobody."""
    monkeypatch.setattr(confirmation, "NEIGHBOUR_FRAMES", 2)
    keys = PublicKeys(public_keys(), FLOOR)
    options = RouterOptions(reliable_control=True)
    router = in_epoch(Router(NODE, options, factory("counting"), INCARNATION, random.Random(1), keys))
    frames = [
        signed(Frame(FrameType.RA, 21, FLOOR | number, 1, 9, EVERYTHING, Flags.RELIABLE), 21)
        for number in range(1, 4)
    ]
    for frame in frames:
        router.handle(FrameReceived(11, frame), 1.0)
    before = router.rows()
    assert router.handle(FrameReceived(11, frames[0]), 1.5) == []
    assert router.rows() == before
    assert router.counters.refused == {("11", "issuer_replayed"): 1}
