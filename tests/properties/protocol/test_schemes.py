"""Routing schemes, all that are registered: deliveries; and the properties that set each one apart."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates.model import Message, Operator, Predicate
from router.protocol.events import RequestUpdate
from router.protocol.options import SCHEMES, RouterOptions
from router.wire.frames import FrameType
from router.wire.header import LOCAL_INTERFACE
from tests.support.fuzz import cases
from tests.support.predicate_cases import MESSAGES, PREDICATES, SEEDS, expect_exact_delivery
from tests.support.protocol_network import Network, graph_of, integer, one, random_graph
from tests.support.router_tables import predicates_of
from tests.support.schemes import EXACT_SCHEMES

CHANGES = st.lists(st.tuples(st.integers(0, 7), PREDICATES), max_size=12)


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=cases(40), deadline=None)
@given(SEEDS, st.integers(2, 8), CHANGES, st.lists(MESSAGES, min_size=1, max_size=3))
def test_on_a_tree_every_scheme_delivers_exactly(
    scheme: str, seed: int, nodes: int, changes: list[tuple[int, Predicate]], messages: list[Message]
) -> None:
    network = Network(random_graph(random.Random(seed), nodes, 0), RouterOptions(scheme=scheme), seed)
    network.new_epoch()
    for node, predicate in changes:
        network.set_predicate(node % nodes, predicate)
        network.some_steps()
    network.settle()
    expect_exact_delivery(network, messages)


@pytest.mark.parametrize("scheme", EXACT_SCHEMES)
@settings(max_examples=cases(40), deadline=None)
@given(SEEDS, st.integers(3, 8), CHANGES, st.lists(MESSAGES, min_size=1, max_size=3), st.booleans())
def test_on_cycles_and_after_a_new_epoch_and_a_restart(
    scheme: str,
    seed: int,
    nodes: int,
    changes: list[tuple[int, Predicate]],
    messages: list[Message],
    restarts: bool,
) -> None:
    network = Network(random_graph(random.Random(seed), nodes, nodes), RouterOptions(scheme=scheme), seed)
    for node, predicate in changes:
        network.set_predicate(node % nodes, predicate)
    network.new_epoch()
    network.settle()
    expect_exact_delivery(network, messages)
    if restarts:
        network.restart(network.rng.randrange(nodes))
    else:
        network.new_epoch()
    network.settle()
    expect_exact_delivery(network, messages)


@settings(max_examples=cases(40), deadline=None)
@given(SEEDS, st.integers(2, 8), CHANGES, MESSAGES)
def test_flooding_crosses_every_edge_of_the_tree_once_and_advertises_nothing(
    seed: int, nodes: int, changes: list[tuple[int, Predicate]], message: Message
) -> None:
    graph = random_graph(random.Random(seed), nodes, nodes)
    network = Network(graph, RouterOptions(scheme="flooding"), seed)
    network.new_epoch()
    for node, predicate in changes:
        network.set_predicate(node % nodes, predicate)
        network.handle(node % nodes, RequestUpdate())
        network.some_steps()
    network.settle()
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
@given(SEEDS, st.integers(2, 8), CHANGES)
def test_on_a_tree_both_filters_do_the_same(
    seed: int, nodes: int, changes: list[tuple[int, Predicate]]
) -> None:
    tables = []
    for scheme in ("pif", "pif-strict"):
        options = RouterOptions(scheme=scheme)
        network = Network(random_graph(random.Random(seed), nodes, 0), options, seed)
        network.new_epoch()
        for node, predicate in changes:
            network.set_predicate(node % nodes, predicate)
            network.settle()
        tables.append(
            (
                {node: predicates_of(router) for node, router in network.routers.items()},
                network.frames,
                network.dropped(),
            )
        )
    assert tables[0] == tables[1]
