"""Routing schemes, all that are registered: deliveries; and the properties that set each one apart."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates import Message, Operator
from router.protocol.options import SCHEMES, RouterOptions
from router.wire.frames import FrameType
from router.wire.header import LOCAL_INTERFACE
from tests.support.fuzz import cases
from tests.support.network_cases import (
    CHANGES,
    MESSAGE_LISTS,
    MESSAGES,
    STEPS,
    Steps,
    World,
    expect_exact_delivery,
    play,
    settled,
    worlds,
)
from tests.support.protocol_network import Network, graph_of, integer, one, random_graph
from tests.support.router_tables import predicates_of
from tests.support.schemes import EXACT_SCHEMES


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=cases(40), deadline=None)
@given(worlds(extra=0), CHANGES, MESSAGE_LISTS)
def test_on_a_tree_every_scheme_delivers_exactly(
    scheme: str, world: World, changes: Steps, messages: list[Message]
) -> None:
    network = settled(world.network(RouterOptions(scheme=scheme)), changes)
    expect_exact_delivery(network, messages)


@pytest.mark.parametrize("scheme", EXACT_SCHEMES)
@settings(max_examples=cases(40), deadline=None)
@given(worlds(3), CHANGES, MESSAGE_LISTS, st.booleans())
def test_on_cycles_and_after_a_new_epoch_and_a_restart(
    scheme: str, world: World, changes: Steps, messages: list[Message], restarts: bool
) -> None:
    """Predicates are set before there is an epoch."""
    graph = random_graph(random.Random(world.seed), world.nodes, world.extra)
    network = Network(graph, RouterOptions(scheme=scheme), world.seed)
    play(network, changes)
    network.new_epoch()
    network.settle()
    expect_exact_delivery(network, messages)
    if restarts:
        network.restart(network.rng.randrange(world.nodes))
    else:
        network.new_epoch()
    network.settle()
    expect_exact_delivery(network, messages)


@settings(max_examples=cases(40), deadline=None)
@given(worlds(), STEPS, MESSAGES)
def test_flooding_crosses_every_edge_of_the_tree_once_and_advertises_nothing(
    world: World, steps: Steps, message: Message
) -> None:
    nodes = world.nodes
    network = settled(world.network(RouterOptions(scheme="flooding")), steps)
    assert not network.frames
    source = network.rng.randrange(nodes)
    network.send(source, message)
    network.settle()
    branches = {node: router.branch(source) for node, router in network.routers.items()}
    interfaces = {node: router.interfaces() for node, router in network.routers.items()}
    edges = {
        (node, interfaces[node][child], FrameType.MSG)
        for node, branch in branches.items()
        if branch is not None
        for child in branch.children
    }
    assert network.frames == dict.fromkeys(edges, 1)
    assert len(edges) == nodes - 1
    rows = [row for router in network.routers.values() for row in router.rows()]
    assert {row.interface for row in rows} <= {LOCAL_INTERFACE}
    assert network.dropped() == {}


# Nodes of the example in docs/adr/0002-ingress-filter-by-subtree.md.
W, U, R, R2, V = range(5)
EXAMPLE = [(W, U, 2), (W, R, 2), (W, R2, 2), (U, V, 2), (V, R2, 3)]


@pytest.mark.parametrize(("scheme", "reached"), [("pif-strict", {R2}), ("pif", {R, R2})])
def test_the_filter_of_the_paper_loses_a_receiver_on_a_cycle(scheme: str, reached: set[int]) -> None:
    network = Network(graph_of(EXAMPLE), RouterOptions(scheme=scheme), 1)
    network.new_epoch()
    network.set_predicate(R2, one(integer("x", Operator.GT, 0)))
    network.settle()
    network.set_predicate(R, one(integer("x", Operator.GT, 5)))
    network.settle()
    sent = network.send(V, Message({"x": 9}))
    network.settle()
    assert set(network.delivered[sent]) == reached


@settings(max_examples=cases(60), deadline=None)
@given(worlds(extra=0), CHANGES)
def test_on_a_tree_both_filters_do_the_same(world: World, changes: Steps) -> None:
    tables = []
    for scheme in ("pif", "pif-strict"):
        network = world.network(RouterOptions(scheme=scheme))
        for change in changes:
            settled(network, [change])
        tables.append(
            (
                {node: predicates_of(router) for node, router in network.routers.items()},
                network.frames,
                network.dropped(),
            )
        )
    assert tables[0] == tables[1]
