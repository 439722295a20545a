"""Attacks of a rogue without keys on a link: their effect on a router in each mode, and their counts.

Node 5 is the router of `tests.support.one_router`; the rogue is on its link to node 11, and knows all but the
keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from router.predicates.model import EVERYTHING, NOTHING, Message
from router.predicates.parser import parse_predicate
from router.protocol.events import ControllerFrame, Deliver, FrameReceived, RequestUpdate, SetPredicate
from router.protocol.options import RouterOptions
from router.security.guard import Guard
from router.wire.addresses import (
    CONTROLLER,
    CONTROLLER_SOURCE,
    ROUTER_DESTINATION,
    node_address,
    port_addresses,
)
from router.wire.codec import encode, forwarded_frame
from router.wire.frames import Body, Commit, Flags, Frame, FrameType, SenderRequest
from router.wire.intake import FrameIntake
from tests.support.guarded import guard, head, router_guard, sealed
from tests.support.one_router import CONTROL, FIRST, NEXT_TABLE, NODE, TABLE, set_up
from tests.support.router_tables import predicates_of

(TO_ROUTER,) = port_addresses([2])
LAST = 2**64 - 1
MODES = ("off", "mac")


class Victim:
    """A router with an application that gets all messages, behind the intake of its link."""

    def __init__(self, mode: str) -> None:
        self.core = set_up(RouterOptions(sr_timeout_s=20.0))
        self.core.handle(SetPredicate(1, EVERYTHING), 0.0)
        self.guard = router_guard(NODE) if mode == "mac" else None
        self.intake = FrameIntake(forwarded_frame, guard=self.guard)
        self.neighbour: Guard | None = router_guard(11) if mode == "mac" else None
        self.controller: Guard | None = guard(CONTROLLER_SOURCE) if mode == "mac" else None
        self.delivered: list[int] = []

    def take(self, data: bytes) -> None:
        taken = self.intake.take(data, 0.0)
        if taken is not None:
            sender, frame, _ = taken
            event = ControllerFrame(frame) if sender == CONTROLLER else FrameReceived(sender, frame)
            actions = self.core.handle(event, 0.0)
            self.delivered += [action.seq for action in actions if isinstance(action, Deliver)]

    def genuine(self, frame: Frame) -> bytes:
        """The frame as node 11 sends it."""
        if self.neighbour is None:
            return forged(frame)
        (data,) = sealed(self.neighbour, TO_ROUTER, node_address(11), frame, [node_address(NODE)])
        return data

    def counted(self) -> dict[str, int]:
        return {**self.intake.dropped, **self.core.counters.dropped}

    def state(self) -> tuple[object, ...]:
        return predicates_of(self.core), self.core.epoch, tuple(self.delivered), self.core.interfaces()


def forged(frame: Frame, source: bytes | None = None) -> bytes:
    """The frame as the rogue sends it in the name of node 11, or of another sender."""
    return head(TO_ROUTER, node_address(11) if source is None else source) + encode(frame)


def by_controller(kind: FrameType, seq: int, epoch: int, body: Body) -> bytes:
    return head(ROUTER_DESTINATION, CONTROLLER_SOURCE) + encode(Frame(kind, NODE, seq, epoch, 1, body))


@dataclass(frozen=True)
class Attack:
    """The frames of the rogue, whether they change anything in mode off, and their count there."""

    frames: tuple[bytes, ...]
    changes: bool
    counted: dict[str, int]


ATTACKS = {
    "forged issuer": Attack((forged(Frame(FrameType.MSG, 21, 9, 1, 9, Message({"x": 1}))),), True, {}),
    "widened table": Attack((forged(Frame(FrameType.RA, 21, 9, 1, 9, EVERYTHING)),), True, {}),
    "final epoch": Attack(
        (
            by_controller(FrameType.TABLE, CONTROL | 9, 2, NEXT_TABLE),
            by_controller(FrameType.COMMIT, CONTROL | 10, 2, Commit(2)),
        ),
        True,
        {},
    ),
    "epoch 2^32 - 1": Attack(
        (by_controller(FrameType.TABLE, CONTROL | 9, 2**32 - 1, TABLE),), False, {"epoch_ahead": 1}
    ),
    "stolen table": Attack(
        (by_controller(FrameType.TABLE, CONTROL - 2**32, 2, NEXT_TABLE),), False, {"other_run": 1}
    ),
    "another node": Attack(
        (forged(Frame(FrameType.MSG, 12, 9, 1, 9, Message({"x": 1})), node_address(12)),), True, {}
    ),
    "lying UR": Attack((forged(Frame(FrameType.UR, NODE, FIRST, 1, 1, NOTHING)),), True, {}),
    "poisoned number": Attack(
        (forged(Frame(FrameType.SR, 11, LAST, 1, 9, SenderRequest(1_000_000))),), False, {}
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_what_an_attack_changes_and_what_it_is_counted_as(attack: Attack, mode: str) -> None:
    victim = Victim(mode)
    # Node 21 is behind node 11, which has advertised; an SR of the router is on its way.
    victim.take(victim.genuine(Frame(FrameType.RA, 21, 1, 1, 9, parse_predicate("x = 1"))))
    victim.core.handle(RequestUpdate(frozenset({1})), 0.0)
    before = victim.state()
    for data in attack.frames:
        victim.take(data)
    if mode == "off":
        assert (victim.state() != before) == attack.changes
        assert victim.counted() == attack.counted
        return
    assert victim.guard is not None
    assert victim.state() == before
    assert victim.counted() == {"untagged": len(attack.frames)}
    (name,) = victim.guard.refused_by_sender()
    assert name == {CONTROLLER_SOURCE: "controller", node_address(12): "12"}.get(attack.frames[0][6:12], "11")


@pytest.mark.parametrize("mode", MODES)
def test_a_message_that_is_replayed_is_delivered_once(mode: str) -> None:
    victim = Victim(mode)
    data = victim.genuine(Frame(FrameType.MSG, 21, 9, 1, 9, Message({"x": 1})))
    for _ in range(500):
        victim.take(data)
    assert victim.delivered == [9]
    assert victim.counted() == ({"message_duplicate": 499} if mode == "off" else {"replayed": 499})


@pytest.mark.parametrize("mode", MODES)
def test_a_poisoned_number_shuts_its_issuer_out_for_a_time_or_not_at_all(mode: str) -> None:
    victim = Victim(mode)
    for data in ATTACKS["poisoned number"].frames:
        victim.take(data)
    victim.take(victim.genuine(Frame(FrameType.SR, 11, FIRST, 1, 9, SenderRequest(1_000_000))))
    assert victim.counted() == ({"sr_old": 1} if mode == "off" else {"untagged": 1})
    victim.core.handle(RequestUpdate(), 20.0)
    answered = FrameReceived(11, Frame(FrameType.SR, 11, FIRST + 1, 1, 9, SenderRequest(1_000_000)))
    assert victim.core.handle(answered, 20.0) != []


def test_a_frame_of_the_wire_is_what_the_core_would_get_without_tags() -> None:
    """The flag of tags reaches neither the core, nor recordings, nor the frames that are sent on."""
    frame = Frame(FrameType.UR, NODE, FIRST, 1, 1, EVERYTHING, Flags.PARTIAL)
    plain, tagged = Victim("off"), Victim("mac")
    found = [victim.intake.take(victim.genuine(frame), 0.0) for victim in (plain, tagged)]
    assert found[0] == found[1] == (11, frame, encode(frame))
