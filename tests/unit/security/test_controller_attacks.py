"""Attacks on the controller by HELLOs and ACKs in the name of another router, in each mode.

The switch of each router drops frames with another source address: all of these are past the switch. An
outsider has no key; an insider has the network key, and the signing key of node 1.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from router.privacy import write_keys
from router.security.guard import make_guard
from router.security.signatures import PublicKeys, Signer
from router.wire.codec import read_frame
from router.wire.frames import COUNTER_BITS, Frame, FrameType, Hello
from router.wire.header import CONTROLLER_DESTINATION, CONTROLLER_SOURCE, node_address
from router.wire.intake import FrameIntake, RefusedError
from testbed.controller.events import Event, FrameReceived, PortChanged
from tests.support.controller_network import TIMING, Network, ack
from tests.support.guarded import (
    INCARNATION,
    RING,
    guard,
    head,
    opened,
    private_key,
    public_keys,
    rogue_signed,
    router_guard,
    sealed,
)
from tests.support.promises import hold
from tests.support.whole_frames import encode
from topos.generators import line

MODES = ("off", "mac", "signed")
VICTIM, ROGUE = 2, 1


class Court(Network):
    """A controller of three routers behind the intake of its frames; routers that are not deaf answer."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        signs = mode == "signed"
        verifier = PublicKeys(public_keys(), INCARNATION << COUNTER_BITS) if signs else None
        super().__init__(line(3), verifier=verifier)
        self.receiver = None if mode == "off" else guard(CONTROLLER_SOURCE)
        verify = None if self.receiver is None else self.receiver.open
        self.intake = FrameIntake(read_frame, verify=verify)
        self._routers = [router_guard(node, signs=signs) for node in range(3)]
        #: The incarnations of the routers, which answer a frame that names another with a HELLO.
        self.starts = dict.fromkeys(range(3), INCARNATION)
        self.hellos = 100
        self.bring_up()
        assert self.epochs() == [1]

    def hello(self, node: int, incarnation: int = INCARNATION) -> None:
        self.say(node, hello(node, incarnation, 1))

    def answers(self, node: int, frame: Frame) -> list[Event]:
        if frame.seq >> COUNTER_BITS == self.starts[node]:
            return self._said(node, ack(frame))
        self.hellos += 1
        return self._said(node, hello(node, self.starts[node], self.hellos))

    def say(self, node: int, frame: Frame) -> None:
        """A router sends the controller a frame of its own."""
        self.tell(*self._said(node, frame))

    def _said(self, node: int, frame: Frame) -> list[Event]:
        address = node_address(node)
        if self.mode == "off":
            return self._taken(node, head(CONTROLLER_DESTINATION, address) + encode(frame))
        sender = self._routers[node]
        sent = sealed(sender, CONTROLLER_DESTINATION, address, frame, [CONTROLLER_SOURCE])
        return [event for data in sent for event in self._taken(node, data)]

    def outside(self, frame: Frame) -> None:
        """An outsider sends a frame in the name of the victim."""
        data = head(CONTROLLER_DESTINATION, node_address(VICTIM)) + encode(frame)
        self.tell(*self._taken(VICTIM, data))

    def inside(self, frame: Frame) -> None:
        """An insider sends a frame, signed or not, in the name of the victim."""
        if self.mode == "off":
            self.outside(frame)
            return
        header = head(CONTROLLER_DESTINATION, node_address(VICTIM))
        # It derives the key of the victim, and counts on as the victim does.
        for data in self._routers[VICTIM].frames(header, frame, [CONTROLLER_SOURCE], 1500):
            self.tell(*self._taken(VICTIM, data))

    def _taken(self, node: int, data: bytes) -> list[Event]:
        taken = self.intake.take(data, self.now, expected=node)
        return [] if taken is None else [FrameReceived(node, taken[1])]

    def last(self, node: int) -> Frame:
        """The last frame that the controller has sent a router."""
        return [sent.frame for sent in self.sent if sent.node == node][-1]

    def break_link(self) -> None:
        """A link goes down, which makes an epoch."""
        self.tell(PortChanged(0, next(iter(self.topology.neighbours(0))), up=False))
        self.advance(1.0)

    def epochs(self) -> list[object]:
        return [each["epoch"] for each in self.events("committed")]

    def counted(self) -> dict[str, int]:
        rejected = Counter(reason for _, reason in self.machine.refused.elements())
        return {**self.intake.dropped, **rejected}

    def counts(self, counted: dict[str, int], node: int = VICTIM) -> None:
        """Compares the counts, all of which the controller has by the name of a node for the report."""
        names = {} if self.receiver is None else self.receiver.refused_by_sender()
        for (named, reason), count in self.machine.refused.items():
            names.setdefault(str(named), {})[reason] = count
        assert (self.counted(), names) == (counted, {str(node): counted} if counted else {})


@pytest.fixture(params=MODES)
def court(request: pytest.FixtureRequest) -> Court:
    return Court(request.param)


def hello(node: int, incarnation: int, number: int) -> Frame:
    return Frame(FrameType.HELLO, node, number, 0, 1, Hello(incarnation))


def genuine(frame: Frame) -> Frame:
    """The frame with the signature of the node that it names."""
    return Signer(frame.issuer, private_key(frame.issuer)).signed(frame)


def forge_acks(court: Court, *, inside: bool, signs: bool) -> None:
    """Acknowledges all that the victim, which is deaf, is sent in the next epoch."""
    court.deaf = {VICTIM}
    court.break_link()
    for _ in range(2):
        forged = ack(court.last(VICTIM))
        forged = rogue_signed(ROGUE, forged) if signs else forged
        (court.inside if inside else court.outside)(forged)
    court.advance(0.5)


@pytest.mark.attack("forged ACK")
def test_acknowledgements_of_an_outsider(court: Court) -> None:
    forge_acks(court, inside=False, signs=False)
    # The controller reports an epoch that the victim has no table of.
    hold("forged ACK", "outsider", court.mode, court.epochs() == [1, 2], court.counted())
    court.counts({} if court.mode == "off" else {"untagged": 2})


@pytest.mark.attack("forged ACK")
@pytest.mark.parametrize("signs", [False, True], ids=["unsigned", "own signature"])
def test_acknowledgements_of_an_insider(court: Court, signs: bool) -> None:
    forge_acks(court, inside=True, signs=signs)
    if signs:
        hold("forged ACK", "insider", court.mode, court.epochs() == [1, 2], court.counted())
    refused = {"bad_signature" if signs else "unsigned": 2} if court.mode == "signed" else {}
    court.counts(refused)
    assert court.epochs() == ([1] if refused else [1, 2])
    court.deaf = set()
    court.advance(5.0)
    assert court.epochs() == [1, 2]


@pytest.mark.attack("forged HELLO")
@pytest.mark.parametrize("signs", [False, True], ids=["unsigned", "own signature"])
def test_a_hello_in_the_name_of_another_router(court: Court, signs: bool) -> None:
    """The controller asks the start that it names, and nobody answers; the network is repaired at once."""
    forged = hello(VICTIM, INCARNATION + 5, 1)
    court.inside(rogue_signed(ROGUE, forged) if signs else forged)
    court.break_link()
    court.advance(2 * TIMING.settle_s)
    assert (court.epochs(), len(court.events("router_unresponsive"))) == ([1, 2], 0)
    if signs:
        hold("forged HELLO", "insider", court.mode, False, court.counted())
    court.counts({"bad_signature" if signs else "unsigned": 1} if court.mode == "signed" else {})


@pytest.mark.attack("answered HELLO")
def test_a_router_whose_start_was_forged_and_answered_for_is_brought_back(court: Court) -> None:
    """TABLEs then name a start of the victim that never was: the victim answers them with its HELLO."""
    court.deaf = {VICTIM}
    court.inside(rogue_signed(ROGUE, hello(VICTIM, INCARNATION + 5, 1)))
    court.inside(rogue_signed(ROGUE, ack(court.sent[-1].frame)))
    court.deaf = set()
    court.break_link()
    court.advance(1.0)
    assert (len(court.events("router_unresponsive")), len(court.events("hello"))) == (
        0,
        3 if court.mode == "signed" else 5,
    )
    hold("answered HELLO", "insider", court.mode, court.epochs()[-1] == 3, court.counted())
    assert court.sent[-1].frame.seq >> COUNTER_BITS == INCARNATION


@pytest.mark.attack("one frame in a while")
def test_a_rogue_that_answers_now_and_then_lets_the_others_be_repaired(court: Court) -> None:
    court.deaf = {ROGUE}
    for up in (False, True) * 10:
        before = len(court.epochs())
        court.tell(PortChanged(0, 1, up))
        court.advance(TIMING.patience_s + 3 * TIMING.settle_s)
        assert len(court.epochs()) > before
        court.advance(30.0)
        court.say(ROGUE, ack(court.last(ROGUE)))
    hold("one frame in a while", "insider", court.mode, True)


def kept(mode: str, frame: Frame) -> Frame:
    """A genuine frame that an insider has kept, as the mode has it."""
    return genuine(frame) if mode == "signed" else frame


@pytest.mark.attack("repeated HELLO")
@pytest.mark.parametrize(
    ("incarnation", "number"), [(INCARNATION - 1, 9), (INCARNATION, 1)], ids=["earlier run", "this start"]
)
def test_a_hello_that_an_insider_repeats(incarnation: int, number: int, court: Court) -> None:
    court.inside(kept(court.mode, hello(VICTIM, incarnation, number)))
    court.advance(60.0)
    hold("repeated HELLO", "insider", court.mode, court.epochs() != [1], court.counted())
    court.counts({"issuer_replayed": 1} if court.mode == "signed" else {})


@pytest.mark.attack("repeated HELLO")
def test_a_hello_of_before_a_restart_that_an_insider_repeats(court: Court) -> None:
    court.starts[VICTIM] += 3
    court.deaf = {VICTIM}
    court.say(VICTIM, hello(VICTIM, INCARNATION + 3, 1))
    question = court.sent[-1].frame
    court.inside(kept(court.mode, hello(VICTIM, INCARNATION, 2)))
    court.say(VICTIM, ack(question))
    court.deaf = set()
    court.advance(1.0)
    assert court.epochs() == [1, 2]
    court.inside(kept(court.mode, hello(VICTIM, INCARNATION, 2)))
    court.advance(60.0)
    assert court.epochs() == [1, 2]
    court.counts({"issuer_replayed": 2} if court.mode == "signed" else {})


@pytest.mark.attack("repeated ACK")
def test_an_acknowledgement_that_is_repeated_brings_nobody_back(court: Court) -> None:
    """The victim was given up; its ACK of an earlier frame says nothing of the present."""
    old = genuine(ack(court.last(VICTIM)))
    court.deaf = {VICTIM}
    court.break_link()
    court.advance(15.0)
    assert len(court.events("router_unresponsive")) == 1
    before = court.epochs()
    for _ in range(100):
        court.inside(old if court.mode == "signed" else replace(old, signature=b"", received=None))
        court.advance(0.5)
    assert len(court.events("router_responsive")) == 0
    hold("repeated ACK", "insider", court.mode, court.epochs() != before, court.counted())
    court.deaf = set()
    court.advance(5.0)
    assert len(court.events("router_responsive")) == 1


@pytest.mark.parametrize("kept", [True, False], ids=["windows in a file", "in memory alone"])
def test_a_controller_that_is_started_again_takes_frames_of_routers(tmp_path: Path, kept: bool) -> None:
    """Its incarnation is above theirs; without its windows, all that they send would be below its floor."""
    keys, windows = tmp_path / "network.keys", tmp_path / "controller.windows" if kept else None
    write_keys(keys, RING)
    router, sent = router_guard(ROGUE), []
    for number in (1, 2):
        frame = hello(ROGUE, INCARNATION, number)
        sent += sealed(router, CONTROLLER_DESTINATION, node_address(ROGUE), frame, [CONTROLLER_SOURCE])
    before = make_guard(CONTROLLER_SOURCE, keys, INCARNATION, windows, None)
    opened(before, sent[0])
    after = make_guard(CONTROLLER_SOURCE, keys, INCARNATION + 60, windows, None)
    if kept:
        opened(after, sent[1])
    for data in sent:
        with pytest.raises(RefusedError, match="replayed"):
            opened(after, data)


@pytest.mark.attack("epoch churn")
def test_hellos_of_a_rogue_in_its_own_name_make_few_epochs(court: Court) -> None:
    """Its name and its keys are its own: no mode holds it back, the rate does."""
    for start in range(1, 41):
        court.starts[ROGUE] = INCARNATION + start
        court.say(ROGUE, hello(ROGUE, INCARNATION + start, 1))
        court.advance(0.1)
    assert court.epochs() == list(range(1, 2 + TIMING.restarts))
    hold("epoch churn", "insider", court.mode, "bounded", court.counted())
    court.counts({"hello_rate": 40 - TIMING.restarts}, ROGUE)


@pytest.mark.attack("epoch churn")
def test_hellos_of_an_outsider_in_the_name_of_a_router(court: Court) -> None:
    for start in range(1, 41):
        court.outside(hello(VICTIM, INCARNATION + start, 1))
        court.advance(0.1)
    hold("epoch churn", "outsider", court.mode, court.epochs() != [1], court.counted())
    court.counts({} if court.mode == "off" else {"untagged": 40})
