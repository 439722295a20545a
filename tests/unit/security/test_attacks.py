"""Attacks of a rogue: their effect on a router in each mode, the reason that counts them, and the name.

Node 5 is the router of `tests.support.one_router`. An outsider is on its link to node 11 and knows all but
the keys; an insider is node 11 itself: it has the network key, and its own signing key.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

import pytest
from hypothesis import given, strategies as st

from router.matching.engines import factory
from router.predicates import EVERYTHING, NOTHING, Message
from router.predicates.parser import parse_predicate
from router.protocol.core.layers import make_router
from router.protocol.core.messages import MESSAGES_REMEMBERED, Messages
from router.protocol.events import (
    Action,
    ControllerFrame,
    Deliver,
    FrameReceived,
    RequestUpdate,
    Send,
    SetPredicate,
    Tick,
)
from router.protocol.options import RouterOptions
from router.records.counters import router_counters
from router.security.guard import Guard
from router.security.signatures import PublicKeys, Signer
from router.wire.codec import forwarded_frame
from router.wire.format import SIGNATURE_BYTES
from router.wire.frames import Body, Commit, Flags, Frame, FrameType, SenderRequest
from router.wire.header import (
    CONTROLLER,
    CONTROLLER_SOURCE,
    HEADER_LENGTH,
    ROUTER_DESTINATION,
    DecodeError,
    decode_header,
    node_address,
    node_of,
    port_addresses,
)
from router.wire.intake import FrameIntake
from tests.support.guarded import (
    INCARNATION,
    guard,
    head,
    private_key,
    public_keys,
    rogue_signed,
    router_guard,
    sealed,
)
from tests.support.mutated_frames import mutated
from tests.support.one_router import CONTROL, FIRST, NEXT_TABLE, NODE, TABLE
from tests.support.promises import hold
from tests.support.router_tables import predicates_of
from tests.support.whole_frames import encode

(TO_ROUTER,) = port_addresses([2])
LAST = 2**64 - 1
MODES = ("off", "mac", "signed")
#: The reasons that accuse the sender of a frame.
REFUSALS = {"untagged", "replayed", "unsigned", "bad_signature", "issuer_replayed"}


class Victim:
    """A router with an application that gets all messages, behind the intake of its link."""

    def __init__(self, mode: str, options: RouterOptions | None = None) -> None:
        self.mode = mode
        self.signs = mode == "signed"
        verifier = PublicKeys(public_keys()) if self.signs else None
        options = options or RouterOptions(sr_timeout_s=20.0)
        self.router = make_router(NODE, options, factory("counting"), 3, random.Random(1), verifier)
        self.core = self.router.core
        self.guard = None if mode == "off" else router_guard(NODE)
        verify = None if self.guard is None else self.guard.open
        self.intake = FrameIntake(forwarded_frame, verify=verify)
        self._guards: dict[bytes, Guard] = {}
        self.delivered: list[tuple[int, int]] = []
        self.sent: list[Frame] = []
        for kind, body in ((FrameType.TABLE, TABLE), (FrameType.COMMIT, Commit(1))):
            self.take(self.genuine(Frame(kind, NODE, CONTROL | 1, 1, 1, body), CONTROLLER))
        assert self.core.epoch == 1
        self.router.handle(SetPredicate(1, EVERYTHING), 0.0)

    def take(self, data: bytes, now: float = 0.0) -> None:
        taken = self.intake.take(data, now)
        if taken is not None:
            sender, frame, _ = taken
            event = ControllerFrame(frame) if sender == CONTROLLER else FrameReceived(sender, frame)
            self.perform(self.router.handle(event, now))

    def perform(self, actions: list[Action]) -> None:
        self.sent += [each.frame for each in actions if isinstance(each, Send)]
        self.delivered += [(each.source, each.seq) for each in actions if isinstance(each, Deliver)]

    def genuine(self, frame: Frame, sender: int = 11) -> bytes:
        """The frame as its issuer makes it and a neighbour, or the controller, sends it."""
        owner = sender if sender == CONTROLLER or frame.type is FrameType.UR else frame.issuer
        signed = Signer(owner, private_key(owner)).signed(frame) if self.signs else frame
        return self.inside(signed, CONTROLLER_SOURCE if sender == CONTROLLER else node_address(sender))

    def inside(self, frame: Frame, source: bytes) -> bytes:
        """The frame, signed or not, as one who has the network key sends it in the name of a source."""
        if self.mode == "off":
            return outside(frame, source)
        destination = ROUTER_DESTINATION if source == CONTROLLER_SOURCE else TO_ROUTER
        # The rogue and those whose name it takes count together: its counters are new.
        sender = self._guards.setdefault(source, guard(source, incarnation=INCARNATION + 1))
        (data,) = sealed(sender, destination, source, frame, [node_address(NODE)])
        return data

    def counted(self) -> dict[str, int]:
        return {**self.intake.dropped, **self.core.counters.dropped}

    def counts(self, counted: dict[str, int], name: str = "11") -> None:
        """Compares the counts, and `refused` in the counters, from which the report names senders."""
        refused = {} if self.guard is None else self.guard.refused_by_sender()
        counters = router_counters(
            self.core.counters,
            frames_received={},
            frames_sent={},
            bytes_received=0,
            bytes_sent=0,
            dropped=self.intake.dropped,
            refused=refused,
        )
        names = {reason: count for reason, count in counted.items() if reason in REFUSALS}
        assert (self.counted(), counters.get("refused", {})) == (counted, {name: names} if names else {})

    def state(self) -> tuple[object, ...]:
        return predicates_of(self.core), self.core.epoch, tuple(self.delivered), self.core.interfaces()


@pytest.fixture(params=MODES)
def victim(request: pytest.FixtureRequest) -> Victim:
    return Victim(request.param)


def outside(frame: Frame, source: bytes) -> bytes:
    """The frame as an outsider sends it."""
    return head(ROUTER_DESTINATION if source == CONTROLLER_SOURCE else TO_ROUTER, source) + encode(frame)


@dataclass(frozen=True)
class Attack:
    """The frames of a rogue and the source address that they have.

    Attributes:
        changes: whether they change anything in mode off, and by an insider in mode mac.
        counted: as what they are counted then.
        own: the rogue issues them in its own name: a signature is its right.
    """

    frames: tuple[Frame, ...]
    source: bytes = node_address(11)
    changes: bool = True
    counted: dict[str, int] = field(default_factory=dict)
    own: bool = False


def of_controller(*frames: tuple[FrameType, int, int, Body], counted: str = "") -> Attack:
    """Frames of the controller, by type, sequence number, epoch and body; a counted frame changes nothing."""
    made = tuple(Frame(kind, NODE, seq, epoch, 1, body) for kind, seq, epoch, body in frames)
    return Attack(made, CONTROLLER_SOURCE, not counted, {counted: 1} if counted else {})


_UR, _SR = Frame(FrameType.UR, NODE, FIRST, 1, 1, NOTHING), SenderRequest(1_000_000)
_MESSAGE = Message({"x": 1})
ATTACKS = {
    "forged issuer": Attack((Frame(FrameType.MSG, 21, 9, 1, 9, _MESSAGE),)),
    "widened table": Attack((Frame(FrameType.RA, 21, 9, 1, 9, EVERYTHING),)),
    "final epoch": of_controller(
        (FrameType.TABLE, CONTROL | 9, 2, NEXT_TABLE), (FrameType.COMMIT, CONTROL | 10, 2, Commit(2))
    ),
    "epoch 2^32 - 1": of_controller((FrameType.TABLE, CONTROL | 9, 2**32 - 1, TABLE), counted="epoch_ahead"),
    "stolen table": of_controller((FrameType.TABLE, CONTROL - 2**32, 2, NEXT_TABLE), counted="other_run"),
    "another node": Attack((Frame(FrameType.MSG, 12, 9, 1, 9, _MESSAGE),), node_address(12)),
    "UR in another name": Attack((_UR,), node_address(12)),
    "lying UR": Attack((_UR,), own=True),
    "poisoned number": Attack((Frame(FrameType.SR, 21, LAST, 1, 9, _SR),), changes=False),
}
EVERY_ATTACK = pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))


def attacked(mode: str, made: Callable[[Victim], list[bytes]]) -> tuple[Victim, bool]:
    """A victim after the frames of a rogue, and whether they changed anything.

    Nodes 11 and 12 have advertised, as node 21 behind 11 has; an SR of the router is on its way.
    """
    victim = Victim(mode)
    victim.take(victim.genuine(Frame(FrameType.RA, 21, 1, 1, 9, parse_predicate("x = 1"))))
    victim.take(victim.genuine(Frame(FrameType.RA, 12, 1, 1, 9, parse_predicate("y = 1")), 12))
    victim.router.handle(RequestUpdate(frozenset({1, 2})), 0.0)
    before = victim.state()
    for data in made(victim):
        victim.take(data)
    return victim, victim.state() != before


def name_of(source: bytes) -> str:
    node = node_of(source)
    return "controller" if node is None else str(node)


@pytest.mark.attack("any frame")
@pytest.mark.parametrize("mode", MODES)
@EVERY_ATTACK
def test_attacks_of_an_outsider(attack: Attack, mode: str) -> None:
    victim, changed = attacked(mode, lambda _: [outside(frame, attack.source) for frame in attack.frames])
    if mode == "off":
        assert (changed, victim.counted()) == (attack.changes, attack.counted)
        return
    hold("any frame", "outsider", mode, changed, victim.counted())
    victim.counts({"untagged": len(attack.frames)}, name_of(attack.source))


@pytest.mark.attack(
    *("forged issuer", "widened table", "final epoch", "epoch 2^32 - 1", "stolen table", "another node"),
    *("UR in another name", "lying UR", "poisoned number"),
)
@pytest.mark.parametrize("signs", [False, True], ids=["unsigned", "own signature"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_of_an_insider(name: str, mode: str, signs: bool) -> None:
    """The page is about a rogue that signs where issuers do."""
    attack = ATTACKS[name]
    made = [rogue_signed(11, frame) if signs else frame for frame in attack.frames]
    victim, changed = attacked(mode, lambda victim: [victim.inside(frame, attack.source) for frame in made])
    if signs == (mode == "signed"):
        assert not (changed and victim.counted())
        hold(name, "insider", mode, changed or not victim.counted(), victim.counted())
    if mode != "signed" or (attack.own and signs):
        assert (changed, victim.counted()) == (attack.changes, attack.counted)
        return
    reason = "bad_signature" if signs else "unsigned"
    assert not changed
    victim.counts({reason: len(attack.frames)}, name_of(attack.source))


@pytest.mark.attack("stolen and signed table")
def test_a_stolen_table_that_its_controller_has_signed_is_of_another_run() -> None:
    frame = ATTACKS["stolen table"].frames[0]
    for mode in MODES:
        victim, changed = attacked(mode, lambda victim: [victim.genuine(frame, CONTROLLER)])
        assert victim.counted() == {"other_run": 1}
        hold("stolen and signed table", "insider", mode, changed, victim.counted())


@pytest.mark.attack("frame of another run", "signature of another run")
def test_a_frame_of_another_run_is_taken_where_nothing_names_the_run() -> None:
    """In the other modes: `test_signing_keys.py`."""
    frame = Frame(FrameType.RA, 21, 9, 1, 9, EVERYTHING)
    _, changed = attacked("off", lambda _: [outside(frame, node_address(11))])
    hold("frame of another run", "outsider", "off", changed)
    for mode in ("off", "mac"):
        _, changed = attacked(mode, lambda victim: [victim.inside(rogue_signed(11, frame), node_address(11))])
        hold("signature of another run", "insider", mode, changed)


@pytest.mark.attack("replayed message")
def test_a_message_that_is_replayed_is_delivered_once(victim: Victim) -> None:
    data = victim.genuine(Frame(FrameType.MSG, 21, 9, 1, 9, Message({"x": 1})))
    for _ in range(500):
        victim.take(data)
    hold("replayed message", "outsider", victim.mode, victim.delivered != [(21, 9)], victim.counted())
    victim.counts({"message_duplicate": 499} if victim.mode == "off" else {"replayed": 499})


@pytest.mark.attack("replayed frames")
def test_what_an_insider_replays_under_tags_of_its_own(victim: Victim) -> None:
    """A message is a duplicate in every mode; an old one, an RA and an SR only where issuers sign."""
    frames = [
        Frame(FrameType.MSG, 21, 9, 1, 9, Message({"x": 1})),
        Frame(FrameType.RA, 21, 1, 1, 9, parse_predicate("x = 1")),
        Frame(FrameType.SR, 21, 1, 1, 9, SenderRequest(1_000_000)),
    ]
    for frame in (*frames, *frames):
        victim.take(victim.genuine(frame))
    hold("replayed frames", "insider", victim.mode, victim.delivered != [(21, 9)], victim.counted())
    old = {"issuer_replayed": 2} if victim.mode == "signed" else {"ra_covered": 1, "sr_old": 1}
    victim.counts({"message_duplicate": 1, **old})


@pytest.mark.attack("late replay")
def test_a_message_that_is_forgotten_is_replayed(victim: Victim) -> None:
    frame = Frame(FrameType.MSG, 21, 9, 1, 9, Message({"x": 1}))
    victim.take(victim.genuine(frame))
    (messages,) = (part for part in victim.core._parts if isinstance(part, Messages))
    for number in range(MESSAGES_REMEMBERED):
        messages.delivered.add((11, number))
    victim.take(victim.genuine(frame))
    hold("late replay", "insider", victim.mode, victim.delivered == [(21, 9), (21, 9)], victim.counted())
    victim.counts({"issuer_replayed": 1} if victim.mode == "signed" else {})


@pytest.mark.attack("forged number")
def test_a_forged_message_keeps_the_genuine_one_of_its_number_out_or_not(victim: Victim) -> None:
    forged = Frame(FrameType.MSG, 21, 9, 1, 9, Message({"forged": 1}))
    victim.take(victim.inside(rogue_signed(11, forged), node_address(11)))
    victim.take(victim.genuine(replace(forged, body=Message({"x": 1}))))
    assert victim.delivered == [(21, 9)]
    hold("forged number", "insider", victim.mode, "message_duplicate" in victim.counted(), victim.counted())
    victim.counts({"bad_signature" if victim.mode == "signed" else "message_duplicate": 1})


@pytest.mark.attack("poisoned number")
def test_a_poisoned_number_shuts_its_issuer_out_for_a_time_or_not_at_all(victim: Victim) -> None:
    poison = rogue_signed(11, ATTACKS["poisoned number"].frames[0])
    victim.take(victim.inside(poison, node_address(11)))

    def request(seq: int) -> bytes:
        return victim.genuine(Frame(FrameType.SR, 21, seq, 1, 9, SenderRequest(1_000_000)))

    victim.take(request(FIRST))
    victim.counts({"bad_signature" if victim.mode == "signed" else "sr_old": 1})
    victim.router.handle(Tick(), 20.0)
    before = victim.counted()
    victim.take(request(FIRST + 1), 20.0)
    assert victim.counted() == before
    assert victim.core.counters.srs_received == (2 if victim.mode == "signed" else 3)


@pytest.mark.attack("old RA")
def test_an_old_ra_of_a_wider_predicate_widens_no_table_again(victim: Victim) -> None:
    """An insider keeps a genuine RA, and sends it after its issuer has narrowed its predicate."""
    wide = Frame(FrameType.RA, 21, 1, 1, 9, EVERYTHING)
    victim.take(victim.genuine(wide))
    victim.router.handle(RequestUpdate(frozenset({1})), 0.0)
    narrow = Frame(FrameType.UR, NODE, FIRST, 1, 1, parse_predicate("x = 1"))
    victim.take(victim.genuine(narrow))
    before = victim.state()
    victim.take(victim.genuine(wide))
    hold("old RA", "insider", victim.mode, victim.state() != before, victim.counted())
    # The table takes it; it goes to no other router, since the ingress filter had it before.
    victim.counts({"issuer_replayed" if victim.mode == "signed" else "ra_covered": 1})


def test_a_frame_on_a_wrong_way_does_not_keep_the_right_one_out() -> None:
    """Node 12 is not on the tree of 21: its copy of a genuine RA comes first, and takes no number."""
    victim = Victim("signed")
    frame = Frame(FrameType.RA, 21, 1, 1, 9, parse_predicate("x = 1"))
    before = victim.state()
    victim.take(victim.genuine(frame, 12))
    assert victim.state() == before
    assert victim.counted() == {"reverse_path": 1}
    victim.take(victim.genuine(frame))
    assert victim.state() != before


def test_a_frame_of_the_wire_is_what_the_core_would_get_without_tags() -> None:
    """The flag of tags reaches neither the core, nor recordings, nor the frames that are sent on."""
    frame = Frame(FrameType.UR, NODE, FIRST, 1, 1, EVERYTHING, Flags.PARTIAL)
    plain, tagged = Victim("off"), Victim("mac")
    found = [victim.intake.take(victim.genuine(frame), 0.0) for victim in (plain, tagged)]
    whole = encode(frame)
    assert found[0] == found[1] == (11, frame, (whole[:HEADER_LENGTH], whole[HEADER_LENGTH:], b""))


def test_an_ra_that_a_router_widens_for_itself_goes_on_as_it_was_signed() -> None:
    victim = Victim("signed", RouterOptions(predicate_weight=10))
    wide = parse_predicate(" or ".join(f"x = {number}" for number in range(0, 40, 2)))
    victim.take(victim.genuine(Frame(FrameType.RA, 21, 1, 1, 9, wide)))
    assert victim.core.counters.predicates_widened == 1
    (sent,) = (frame for frame in victim.sent if frame.type is FrameType.RA and frame.issuer == 21)
    data = encode(sent)
    taken = forwarded_frame(decode_header(data), data[HEADER_LENGTH:-SIGNATURE_BYTES], sent.signature)
    assert PublicKeys(public_keys()).stands(taken, 21)
    assert (taken.body, taken.hop_limit) == (wide, 8)


_HOSTILE, _STARTS = Victim("signed"), count()


@given(st.integers(0, 2**32), st.sampled_from([CONTROLLER_SOURCE, *map(node_address, (11, 12, 13))]))
def test_no_hostile_frame_of_an_insider_raises_or_changes_anything(seed: int, source: bytes) -> None:
    before = _HOSTILE.state()
    payload = mutated(random.Random(seed))
    try:
        decode_header(payload)
    except DecodeError:
        return
    destination = ROUTER_DESTINATION if source == CONTROLLER_SOURCE else TO_ROUTER
    sender = guard(source, incarnation=INCARNATION + 1 + next(_STARTS))
    header = head(destination, source)
    _HOSTILE.take(sender.seal(header, payload, [node_address(NODE)], message=False))
    assert _HOSTILE.state() == before
    assert not _HOSTILE.sent
