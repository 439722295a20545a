"""On every broadcast layer, a message reaches exactly its receivers: controller tables, real routers."""

from __future__ import annotations

import random
from collections import Counter

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates.model import EVERYTHING, NOTHING, Message, Operator, Predicate, matches
from router.protocol.options import RouterOptions
from router.wire.frames import BroadcastTable, FrameType
from testbed.controller.trees import LAYERS, router_tables
from tests.support.predicate_cases import SEEDS
from tests.support.protocol_network import Graph, Network, integer, one, random_graph
from tests.support.pull_cases import OPTIONS, STEPS, play, table_errors
from tests.support.schemes import EXACT_SCHEMES
from topos.build import LinkSpec, build
from topos.model import Node

PREDICATES = st.sampled_from(
    [
        NOTHING,
        EVERYTHING,
        *(one(integer("a", Operator.LT, bound)) for bound in (1, 2, 3)),
        *(one(integer("a", Operator.EQ, value)) for value in (1, 2)),
        one(integer("a", Operator.GT, 1)),
    ]
)
MESSAGES = [Message({"a": value}) for value in range(4)]


def network_of(layer: str, graph: Graph, seed: int, options: RouterOptions | None = None) -> Network:
    """A network whose tables come from the controller's `layer`."""
    ordered = sorted(graph.edges(data=True), key=lambda edge: edge[2]["index"])
    links = [LinkSpec(u, v, cost=data["cost"]) for u, v, data in ordered]
    topology = build("drawn", [Node(node) for node in sorted(graph)], links)

    def tables_of(_full: Graph, alive: Graph) -> dict[int, BroadcastTable]:
        down = frozenset(link.index for link in topology.links if not alive.has_edge(link.u, link.v))
        return router_tables(topology, LAYERS[layer](topology, down, frozenset()), subtrees=True)

    network = Network(graph, options or RouterOptions(), seed)
    network.tables_of = tables_of
    return network


def expect_exact_delivery(network: Network) -> None:
    for node in network.routers:
        for message in MESSAGES:
            network.frames.clear()
            sent = network.send(node, message)
            network.settle()
            wanted = Counter(n for n, predicate in network.predicates.items() if matches(predicate, message))
            assert network.delivered[sent] == wanted, (sent, message)
            # A router sends a message at most once over each of its interfaces, on the tree or not.
            carried = [n for (_, _, kind), n in network.frames.items() if kind is FrameType.MSG]
            assert all(count == 1 for count in carried)


@pytest.mark.parametrize("layer", LAYERS)
@settings(max_examples=60, deadline=None)
@given(
    scheme=st.sampled_from(EXACT_SCHEMES),
    seed=st.integers(0, 2**32),
    nodes=st.integers(2, 8),
    extra=st.integers(0, 8),
    changes=st.lists(st.tuples(st.integers(0, 7), PREDICATES), max_size=12),
)
def test_every_message_reaches_exactly_its_receivers(
    layer: str, scheme: str, seed: int, nodes: int, extra: int, changes: list[tuple[int, Predicate]]
) -> None:
    graph = random_graph(random.Random(seed), nodes, extra)
    network = network_of(layer, graph, seed, RouterOptions(scheme=scheme))
    network.new_epoch()
    for node, predicate in changes:
        network.set_predicate(node % nodes, predicate)
        network.some_steps()
    network.settle()
    expect_exact_delivery(network)
    allowed = {"ra_covered", "reverse_path", "own_frame"} if layer == "rpf" else {"ra_covered"}
    assert set(network.dropped()) <= allowed


@pytest.mark.parametrize("layer", LAYERS)
@settings(max_examples=30, deadline=None)
@given(
    scheme=st.sampled_from(EXACT_SCHEMES),
    seed=st.integers(0, 2**32),
    nodes=st.integers(3, 7),
    changes=st.lists(st.tuples(st.integers(0, 6), PREDICATES), min_size=1, max_size=8),
)
def test_and_again_after_a_link_has_failed_and_returned(
    layer: str, scheme: str, seed: int, nodes: int, changes: list[tuple[int, Predicate]]
) -> None:
    graph = random_graph(random.Random(seed), nodes, nodes)
    network = network_of(layer, graph, seed, RouterOptions(scheme=scheme))
    network.new_epoch()
    for node, predicate in changes:
        network.set_predicate(node % nodes, predicate)
        network.some_steps()
    bridges = {frozenset(link) for link in nx.bridges(graph)}
    spare = [link for link in graph.edges if frozenset(link) not in bridges]
    for down in ((network.rng.choice(spare),) if spare else (), ()):
        network.new_epoch(down)
        network.settle()
        expect_exact_delivery(network)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    nodes=st.integers(2, 7),
    changes=st.lists(st.tuples(st.integers(0, 6), PREDICATES), min_size=1, max_size=8),
)
def test_after_a_restart_a_new_epoch_brings_everything_back(
    seed: int, nodes: int, changes: list[tuple[int, Predicate]]
) -> None:
    network = network_of("spt", random_graph(random.Random(seed), nodes, nodes), seed)
    network.new_epoch()
    for node, predicate in changes:
        network.set_predicate(node % nodes, predicate)
    network.settle()
    network.restart(network.rng.randrange(nodes))
    network.settle()
    expect_exact_delivery(network)


@pytest.mark.parametrize("layer", LAYERS)
@settings(max_examples=100, deadline=None)
@given(SEEDS, st.integers(2, 8), st.integers(0, 8), STEPS)
def test_one_round_of_requests_makes_every_table_exact(
    layer: str, seed: int, nodes: int, extra: int, steps: list[tuple[int, Predicate | None]]
) -> None:
    """With the controller's tables of reusable replies and of pruned children."""
    network = network_of(layer, random_graph(random.Random(seed), nodes, extra), seed, OPTIONS)
    network.new_epoch()
    play(network, steps)
    network.settle()
    network.now += OPTIONS.ur_freshness_s + 0.1
    for node in network.rng.sample(range(nodes), nodes):
        network.request_update(node)
        network.some_steps()
    network.settle()
    assert table_errors(network, exact=True) == []
    assert all(router.counters.urs_missed == 0 for router in network.routers.values())
