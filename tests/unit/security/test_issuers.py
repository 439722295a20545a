"""Frames of issuers at a router: those of earlier runs, and what a router without signatures does not do."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import permutations

import networkx as nx
import pytest

from router.matching.engines import factory
from router.predicates import EVERYTHING, NOTHING, Message, Predicate
from router.predicates.parser import parse_predicate
from router.protocol.core import reliable_control
from router.protocol.core.layers import make_router
from router.protocol.core.router import Layer
from router.protocol.events import Action, ControllerFrame, Deliver, Event, FrameReceived, Send, SetPredicate
from router.protocol.options import RouterOptions
from router.recording.file import Origin
from router.security.signatures import PublicKeys, Signer
from router.wire.frames import COUNTER_BITS, Ack, Body, Commit, Flags, Frame, FrameType, SenderRequest
from router.wire.header import CONTROLLER
from tests.support.guarded import private_key, public_keys, rogue_signed
from tests.support.one_router import INCARNATION, NODE, TABLE
from tests.support.protocol_network import Graph, Network, path, random_graph

FLOOR = INCARNATION << COUNTER_BITS
#: Number of an issuer of the run before.
EARLIER = (INCARNATION - 1) << COUNTER_BITS | 5
BODIES: dict[FrameType, Body] = {
    FrameType.MSG: Message({"a": 1}),
    FrameType.RA: EVERYTHING,
    FrameType.SR: SenderRequest(10_000_000),
}
EACH_KIND = pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.name)


def signed(frame: Frame, owner: int) -> Frame:
    return Signer(owner, private_key(owner)).signed(frame)


def of_21(kind: FrameType, seq: int, flags: Flags = Flags.NONE, body: Body | None = None) -> Frame:
    """A frame that node 21 has signed; by default with the body of `BODIES`."""
    return signed(Frame(kind, 21, seq, 1, 9, BODIES[kind] if body is None else body, flags), 21)


def in_epoch(router: Layer, epoch: int = 1, incarnation: int = INCARNATION) -> Layer:
    """The router in an epoch, with an application that gets all messages."""
    number = incarnation << COUNTER_BITS | 1
    for kind, body in ((FrameType.TABLE, TABLE), (FrameType.COMMIT, Commit(epoch))):
        frame = signed(Frame(kind, NODE, number, epoch, 1, body), CONTROLLER)
        router.handle(ControllerFrame(frame), 0.0)
    assert router.core.epoch == epoch
    router.handle(SetPredicate(1, EVERYTHING), 0.0)
    return router


def router_of(keys: PublicKeys, incarnation: int = INCARNATION, *, reliable_control: bool = False) -> Layer:
    options = RouterOptions(reliable_control=reliable_control)
    return make_router(NODE, options, factory("counting"), incarnation, random.Random(1), keys)


@EACH_KIND
def test_nothing_of_an_earlier_run_under_the_same_keys_is_taken(kind: FrameType) -> None:
    """Its issuer signed it, and epochs of all runs have the same numbers."""
    router = in_epoch(router_of(PublicKeys(public_keys(), FLOOR)))
    rows = router.core.rows()
    assert router.handle(FrameReceived(11, of_21(kind, EARLIER)), 1.0) == []
    assert router.core.counters.dropped == {"issuer_replayed": 1}
    assert router.core.rows() == rows
    # The first number of this run is taken.
    assert router.handle(FrameReceived(11, of_21(kind, FLOOR | 1)), 1.0)
    assert router.core.counters.dropped == {"issuer_replayed": 1}


@pytest.mark.parametrize("newer", [1, 1_024, 50_000])
def test_an_ra_that_newer_ones_have_overtaken_is_no_replay(newer: int) -> None:
    """It was lost, its sender repeats it; the router never learns of its predicate from any other frame."""
    router = in_epoch(router_of(PublicKeys(public_keys(), FLOOR)))
    overtaken = of_21(FrameType.RA, FLOOR + 1, body=parse_predicate("x = 1"))
    last = of_21(FrameType.RA, FLOOR + 1 + newer, body=parse_predicate("x = 2"))
    router.handle(FrameReceived(11, last), 1.0)
    router.handle(FrameReceived(11, overtaken), 2.0)
    assert router.core.counters.dropped == {}
    assert router.core.counters.ras_received == 2
    router.handle(FrameReceived(11, overtaken), 3.0)
    assert router.core.counters.dropped == {"issuer_replayed": 1}


def test_a_replay_refuses_what_the_live_router_has_refused() -> None:
    origin = Origin(NODE, RouterOptions(), "counting", 1, INCARNATION, public_keys().hex(), FLOOR)
    router = in_epoch(origin.router())
    assert router.handle(FrameReceived(11, of_21(FrameType.MSG, EARLIER)), 1.0) == []
    assert router.core.counters.dropped == {"issuer_replayed": 1}


def test_a_copy_that_was_sent_again_is_confirmed_and_is_no_replay() -> None:
    """The RECEIPT of a genuine frame may be lost; a frame of a rogue is never confirmed."""
    router = in_epoch(router_of(PublicKeys(public_keys(), FLOOR), reliable_control=True))
    number = FLOOR | 1
    unsigned = Frame(FrameType.RA, 21, number, 1, 9, EVERYTHING, Flags.RELIABLE)
    assert router.handle(FrameReceived(11, unsigned), 1.0) == []
    assert router.core.counters.dropped == {"unsigned": 1}
    receipt = Send(frozenset({1}), Frame(FrameType.RECEIPT, 21, number, 1, 1, Ack(FrameType.RA)))
    for _ in range(2):
        assert router.handle(FrameReceived(11, signed(unsigned, 21)), 1.0)[0] == receipt
    assert router.core.counters.control_copies == 1
    assert "issuer_replayed" not in router.core.counters.dropped


class _Counting(PublicKeys):
    """Public keys that count the signatures verified with them."""

    verified = 0

    def stands(self, frame: Frame, signer: int) -> bool:
        self.verified += 1
        return super().stands(frame, signer)


def _counting(applications: bool = True) -> tuple[Layer, _Counting]:
    """A router in epoch 1 and its keys, and whether it has an application that gets all messages.

    Node 12, behind another link, has advertised.
    """
    keys = _Counting(public_keys(), FLOOR)
    router = in_epoch(router_of(keys))
    if not applications:
        router.handle(SetPredicate(1, NOTHING), 0.0)
    router.handle(FrameReceived(12, signed(Frame(FrameType.RA, 12, FLOOR | 1, 1, 9, EVERYTHING), 12)), 0.0)
    keys.verified = 0
    return router, keys


_MESSAGE = Frame(FrameType.MSG, 21, FLOOR | 1, 1, 9, Message({"a": 1}))
#: The message of node 21 with a signature by the key of node 11.
_FORGED = rogue_signed(11, _MESSAGE)


@pytest.mark.parametrize(
    "frame", [_MESSAGE, _FORGED, signed(_MESSAGE, 21)], ids=["unsigned", "forged", "genuine"]
)
def test_a_router_that_only_passes_a_message_on_verifies_no_signature(frame: Frame) -> None:
    router, keys = _counting(applications=False)
    actions = router.handle(FrameReceived(11, frame), 1.0)
    assert actions == [Send(frozenset({2}), frame.one_hop_less())]
    assert (keys.verified, router.core.counters.dropped) == (0, {})


@pytest.mark.parametrize(
    ("frame", "reason", "verified"),
    [(_MESSAGE, "unsigned", 0), (_FORGED, "bad_signature", 1)],
    ids=["unsigned", "forged"],
)
def test_a_forged_message_goes_on_and_is_not_delivered(frame: Frame, reason: str, verified: int) -> None:
    router, keys = _counting()
    actions = router.handle(FrameReceived(11, frame), 1.0)
    assert actions == [Send(frozenset({2}), frame.one_hop_less())]
    assert (keys.verified, router.core.counters.refused) == (verified, {("11", reason): 1})


@EACH_KIND
def test_the_signature_of_a_frame_is_verified_once_however_often_the_frame_comes(kind: FrameType) -> None:
    router, keys = _counting()
    frame = of_21(kind, FLOOR | 1)
    for _ in range(3):
        router.handle(FrameReceived(11, frame), 1.0)
    reason = "message_duplicate" if kind is FrameType.MSG else "issuer_replayed"
    assert (keys.verified, router.core.counters.dropped) == (1, {reason: 2})


def test_nothing_of_before_a_restart_is_taken_after_it() -> None:
    """The windows of issuers are in memory: what holds is the epoch, of which the restarted router has no
    table, and which signatures cover."""
    frames = [of_21(kind, FLOOR | 5) for kind in BODIES]
    keys = PublicKeys(public_keys(), FLOOR)
    before = in_epoch(router_of(keys))
    for frame in frames:
        before.handle(FrameReceived(11, frame), 1.0)
    assert before.core.counters.dropped == {}
    restarted = in_epoch(router_of(keys, INCARNATION + 1), epoch=2, incarnation=INCARNATION + 1)
    rows = restarted.core.rows()
    assert [restarted.handle(FrameReceived(11, frame), 1.0) for frame in frames] == [[], [], []]
    assert restarted.core.counters.dropped == {"unknown_epoch": 3}
    # In the name of the new epoch, they are not what their issuer signed.
    renamed = [replace(frame, epoch=2) for frame in frames]
    assert not any(
        isinstance(action, Deliver)
        for frame in renamed
        for action in restarted.handle(FrameReceived(11, frame), 1.0)
    )
    assert restarted.core.counters.dropped == {"unknown_epoch": 3, "bad_signature": 3}
    assert restarted.core.rows() == rows


def test_a_copy_after_many_other_frames_counts_as_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """An honest neighbour sends it, whose RECEIPTs were lost: the reason alone accuses nobody."""
    monkeypatch.setattr(reliable_control, "NEIGHBOUR_FRAMES", 2)
    router = in_epoch(router_of(PublicKeys(public_keys(), FLOOR), reliable_control=True))
    frames = [of_21(FrameType.RA, FLOOR | number, Flags.RELIABLE) for number in range(1, 4)]
    for frame in frames:
        router.handle(FrameReceived(11, frame), 1.0)
    before = router.core.rows()
    assert router.handle(FrameReceived(11, frames[0]), 1.5) == []
    assert router.core.rows() == before
    assert router.core.counters.refused == {("11", "issuer_replayed"): 1}


# A router's word about its subtree: what a lie changes is what the liar could do without one.


class LyingNetwork(Network):
    """A network in which the URs of one router say something else.

    Attributes:
        liar: the node. None: nobody lies.
        lie: what its URs say.
    """

    liar: int | None = None
    lie: Predicate = NOTHING

    def handle(self, node: int, event: Event) -> list[Action]:
        actions = super().handle(node, event)
        if node == self.liar:
            for (sender, _), waiting in self._queues.items():
                for place, frame in enumerate(waiting):
                    if sender == node and frame.type is FrameType.UR:
                        waiting[place] = replace(frame, body=self.lie)
        return actions


def outcome(
    graph: Graph, seed: int, liar: int | None = None, lie: Predicate = NOTHING
) -> tuple[set[tuple[int, int]], Counter[int]]:
    """Every node asks for messages with its number; all issue SRs; each sends a message to each other.

    Returns (source, receiver) of each delivery, and the MSG frames that each router has received.
    """
    network = LyingNetwork(graph, RouterOptions(), seed)
    network.liar, network.lie = liar, lie
    network.new_epoch()
    for node in graph:
        network.set_predicate(node, parse_predicate(f"to = {node}"))
    network.settle()
    for node in graph:
        network.request_update(node)
        network.settle()
    network.frames.clear()
    delivered = set()
    for source, receiver in permutations(graph, 2):
        message = network.send(source, Message({"to": receiver}))
        network.settle()
        if network.delivered[message][receiver]:
            delivered.add((source, receiver))
    received: Counter[int] = Counter()
    for (_, receiver, kind), count in network.frames.items():
        received[receiver] += count * (kind is FrameType.MSG)
    return delivered, received


@pytest.mark.parametrize("seed", range(3))
def test_a_lie_cuts_off_nobody_whom_the_liar_could_not_drop(seed: int) -> None:
    graph = random_graph(random.Random(seed), 12, 6)
    # The node on most of the shortest paths has most to lie about.
    centrality = nx.betweenness_centrality(graph)
    liar = max(sorted(graph), key=lambda node: centrality[node])
    every = set(permutations(graph, 2))
    delivered, received = outcome(graph, seed)
    assert delivered == every
    narrow, _ = outcome(graph, seed, liar, NOTHING)
    droppable = {pair for pair in every if liar in path(graph, *pair)[1:]}
    assert every - narrow == droppable != set()
    wide, further = outcome(graph, seed, liar, EVERYTHING)
    assert wide == every
    assert further[liar] > received[liar]
