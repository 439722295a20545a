"""Private networks: routers without the key deliver what plain ones do, and members discard the rest."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from router.predicates import EVERYTHING, Filter, Message, Predicate, matches
from router.predicates.encoded import BloomMessage, BloomPredicate
from router.predicates.encoded.encoder import Hardening
from router.privacy import EncodingParameters, KeyRing
from router.privacy.member import Member
from router.protocol.events import Action, Deliver, Event, FrameReceived, Refused, SendMessage
from router.protocol.options import CONTENTS, SCHEMES, RouterOptions
from router.wire.frames import Frame, FrameType
from router.wire.header import LOCAL_INTERFACE
from tests.support.encoded_cases import covers, encoder, only
from tests.support.fuzz import cases
from tests.support.network_cases import (
    CHANGES,
    MESSAGE_LISTS,
    MESSAGES,
    OPTIONS,
    PREDICATES,
    STEPS,
    Steps,
    World,
    ask_once,
    behind,
    expect_exact_delivery,
    settled,
    worlds,
)
from tests.support.protocol_network import Network, random_graph
from tests.support.router_tables import predicates_of
from tests.support.schemes import EXACT_SCHEMES

#: Small sets, so that there are false positives.
PARAMETERS = (
    EncodingParameters(),
    EncodingParameters(bits=16, hashes=2),
    EncodingParameters(encoding="ranges", range_high=4.0),
)


class PrivateNetwork(Network):
    """A network whose applications are members.

    Attributes:
        opened: the deliveries that members accepted: (source, seq) -> nodes.
    """

    def __init__(self, world: World, scheme: str, parameters: EncodingParameters) -> None:
        seed, nodes, extra = world
        rng = random.Random(seed)
        ring = KeyRing.new(parameters, rng.randbytes)
        self.ring = ring
        self.members = {node: Member(ring, Hardening(kept_hashes=1), rng=rng) for node in range(nodes)}
        self.opened: dict[tuple[int, int], set[int]] = {}
        options = RouterOptions(scheme=scheme, privacy="bloom")
        super().__init__(random_graph(random.Random(seed), nodes, extra), options, seed)
        self.new_epoch()

    def declare(self, node: int, predicate: Predicate) -> None:
        self.members[node].predicate = predicate
        self.set_predicate(node, self.members[node].encode(predicate))

    def handle(self, node: int, event: Event) -> list[Action]:
        actions = super().handle(node, event)
        for action in actions:
            if isinstance(action, Deliver):
                assert isinstance(action.message, BloomMessage)
                if isinstance(self.members[node].open(action.message), Message):
                    self.opened.setdefault((action.source, action.seq), set()).add(node)
        return actions

    def publish(self, node: int, message: Message) -> set[int]:
        """Sends a message; returns the nodes whose members accepted it."""
        sent = self.send(node, self.members[node].message(message))
        self.settle()
        return self.opened.get(sent, set())


@pytest.mark.parametrize("scheme", [each for each in EXACT_SCHEMES if not SCHEMES[each].reads_filters])
@settings(max_examples=cases(12))
@given(worlds(most=6, extra=4), st.sampled_from(PARAMETERS), CHANGES, MESSAGES)
def test_members_accept_what_a_plain_network_delivers(
    scheme: str,
    world: World,
    parameters: EncodingParameters,
    changes: list[tuple[int, Predicate]],
    message: Message,
) -> None:
    nodes, network = world.nodes, PrivateNetwork(world, scheme, parameters)
    predicates: dict[int, Predicate] = {}
    for node, predicate in changes:
        predicates[node % nodes] = predicate
        network.declare(node % nodes, predicate)
        network.some_steps()
    network.settle()
    expected = {node for node, predicate in predicates.items() if matches(predicate, message)}
    for source in range(nodes):
        assert network.publish(source, message) == expected
    private = {FrameType.XMSG, FrameType.XRA, FrameType.XUR, FrameType.SR}
    assert {kind for _, _, kind in network.frames} <= private


@settings(max_examples=cases(25))
@given(worlds(most=6, extra=4), CHANGES, MESSAGES)
def test_rotation_of_the_key_loses_no_message(
    world: World, changes: list[tuple[int, Predicate]], message: Message
) -> None:
    """Members get each key file one after the other, in any order; messages go out all the time."""
    nodes, network = world.nodes, PrivateNetwork(world, "pif", EncodingParameters(bits=64, hashes=3))
    predicates = {node % nodes: predicate for node, predicate in changes}
    for node, predicate in predicates.items():
        network.declare(node, predicate)
    network.settle()
    expected = {node for node, predicate in predicates.items() if matches(predicate, message)}
    ring = network.ring
    used = set()
    for _ in range(3):
        ring = ring.rotated(random_bytes=network.rng.randbytes)
        for node in network.rng.sample(range(nodes), nodes):
            network.members[node].set_keys(ring)
            network.declare(node, network.members[node].predicate)
            network.settle()
            source = network.rng.randrange(nodes)
            assert network.publish(source, message) == expected
            used.add(ring.sending)
    assert len(used) == 2
    assert len(ring.keys) == 1


@pytest.mark.parametrize("comes_from", ["application", "neighbour"])
def test_a_message_of_too_many_bits_goes_nowhere(comes_from: str) -> None:
    network = PrivateNetwork(World(1, 2, 0), "pif", EncodingParameters())
    network.declare(1, EVERYTHING)
    network.settle()
    network.frames.clear()
    sealed = network.members[0].message(Message({"a": 1}))
    heavy = BloomMessage(sealed.suite, (1 << 512) - 1, sealed.sealed)
    if comes_from == "application":
        (refused,) = network.handle(0, SendMessage(1, heavy))
        assert isinstance(refused, Refused)
        assert "512 of 512 bits" in refused.reason
    else:
        frame = Frame(FrameType.XMSG, 0, 1 << 32, network.epoch, 8, heavy)
        assert network.handle(1, FrameReceived(0, frame)) == []
    assert network.dropped() == {"message_refused": 1}
    assert not network.frames


def test_a_heavy_predicate_is_widened_and_loses_nobody() -> None:
    options = RouterOptions(privacy="bloom", predicate_filters=3)
    network = World(1, 2, 0).network(options)
    maker = encoder()
    wide = BloomPredicate(maker.filter(only(f"a = 1 and b = {number}")) for number in range(10))
    # Its own router would refuse an application so wide a predicate; a rogue's neighbour gets it anyway.
    network.handle(0, FrameReceived(1, Frame(FrameType.XRA, 1, 1 << 32, network.epoch, 8, wide)))
    network.settle()
    known = network.routers[0]._routing.get(1)
    assert isinstance(known, BloomPredicate)
    assert covers(known, wide)
    # The common bits of the filters beyond the bound, which cover the others as well.
    assert len(known) == 1
    assert maker.filter(only("a = 1")).covers(known.encoded[0])
    assert network.routers[0].counters.predicates_widened == 1
    assert not network.routers[0]._routing.get(LOCAL_INTERFACE)


# Contents: deliveries do not depend on how predicates are compared; uncovered tables are verbatim.


@settings(max_examples=cases(60))
@given(worlds(extra=6), CHANGES, MESSAGE_LISTS)
def test_deliveries_are_the_same_under_every_content(
    world: World, changes: Steps, messages: list[Message]
) -> None:
    delivered = []
    for covering in CONTENTS:
        network = settled(world.network(RouterOptions(covering=covering), "counting"), changes)
        expect_exact_delivery(network, messages)
        delivered.append(network.delivered)
    assert all(each == delivered[0] for each in delivered)


def filters_behind(network: Network, node: int, neighbour: int) -> set[Filter]:
    """The filters that the nodes behind a link have declared."""
    return {
        filter_
        for other in behind(network, node, neighbour)
        for filter_ in network.predicates.get(other, Predicate())
    }


def expect_declared_filters(network: Network) -> None:
    """Every table holds the filters that were declared behind each interface, each once, and no others."""
    for node, router in network.routers.items():
        table = predicates_of(router)
        assert set(table.get(LOCAL_INTERFACE, ())) == set(network.predicates.get(node, ()))
        for interface, neighbour in router.interfaces().items():
            held = list(table.get(interface, ()))
            assert len(held) == len(set(held))
            assert set(held) == filters_behind(network, node, neighbour), (node, interface)


@settings(max_examples=cases(80))
@given(worlds(extra=6), st.lists(PREDICATES, min_size=8, max_size=8), STEPS)
def test_advertisements_and_a_round_of_requests_leave_exactly_the_declared_filters(
    world: World, predicates: list[Predicate], steps: Steps
) -> None:
    network = world.network(replace(OPTIONS, covering="none"))
    expect_declared_filters(settled(network, list(enumerate(predicates[: world.nodes]))))
    ask_once(settled(network, steps))
    expect_declared_filters(network)


@settings(max_examples=cases(100))
@given(st.lists(PREDICATES, max_size=8), MESSAGES)
def test_a_builder_of_any_content_matches_what_was_added(
    predicates: list[Predicate], message: Message
) -> None:
    for name in CONTENTS:
        content = CONTENTS[name]()
        builder = content.builder()
        for predicate in predicates:
            covered = builder.covers(predicate)
            assert builder.add(predicate) is not covered
            assert builder.covers(predicate)
        expected = any(matches(predicate, message) for predicate in predicates)
        assert builder.matches(message) == expected
        assert matches(builder.predicate, message) == expected
        assert content.builder(builder.predicate).members == builder.members
