"""For any graph, order of events and predicates, a message reaches each receiver once."""

from __future__ import annotations

import random
from collections import Counter

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates.model import Message, Operator, Predicate
from router.protocol.options import RouterOptions
from router.wire.frames import FrameType
from tests.support.fuzz import cases
from tests.support.predicate_cases import (
    MESSAGES,
    PREDICATES,
    SEEDS,
    expect_exact_delivery,
)
from tests.support.protocol_network import Network, graph_of, integer, one, random_graph
from tests.support.router_tables import predicates_of


@settings(max_examples=cases(150), deadline=None)
@given(
    SEEDS,
    st.integers(2, 9),
    st.integers(0, 8),
    st.lists(st.tuples(st.integers(0, 8), PREDICATES), max_size=14),
    st.lists(MESSAGES, min_size=1, max_size=4),
)
def test_every_message_reaches_exactly_its_receivers(
    seed: int, nodes: int, extra: int, changes: list[tuple[int, Predicate]], messages: list[Message]
) -> None:
    network = Network(random_graph(random.Random(seed), nodes, extra), RouterOptions(), seed)
    early = network.rng.randrange(len(changes) + 1)
    for position, (node, predicate) in enumerate(changes):
        if position == early:
            network.new_epoch()
        network.set_predicate(node % nodes, predicate)
        network.some_steps()
    if network.epoch == 0:
        network.new_epoch()
    network.settle()
    expect_exact_delivery(network, messages)
    assert set(network.dropped()) <= {"ra_covered"}


@settings(max_examples=cases(60), deadline=None)
@given(
    SEEDS,
    st.integers(3, 8),
    st.lists(st.tuples(st.integers(0, 7), PREDICATES), min_size=1, max_size=8),
    st.lists(MESSAGES, min_size=1, max_size=3),
    st.booleans(),
)
def test_nothing_is_lost_after_links_fail_and_return(
    seed: int,
    nodes: int,
    changes: list[tuple[int, Predicate]],
    messages: list[Message],
    counting: bool,
) -> None:
    graph = random_graph(random.Random(seed), nodes, nodes)
    network = Network(graph, RouterOptions(), seed, "counting" if counting else "naive")
    network.new_epoch()
    for node, predicate in changes:
        network.set_predicate(node % nodes, predicate)
        network.some_steps()
    bridges = set(nx.bridges(graph))
    cycles = [link for link in graph.edges if link not in bridges and link[::-1] not in bridges]
    failing = tuple(network.rng.sample(cycles, 1)) if cycles else ()
    for down in (failing, ()):
        network.new_epoch(down)
        network.settle()
        expect_exact_delivery(network, messages)


@settings(max_examples=cases(40), deadline=None)
@given(SEEDS, st.integers(2, 8), st.lists(st.tuples(st.integers(0, 7), PREDICATES), max_size=8))
def test_no_link_carries_a_message_twice(seed: int, nodes: int, changes: list[tuple[int, Predicate]]) -> None:
    network = Network(random_graph(random.Random(seed), nodes, nodes), RouterOptions(), seed)
    network.new_epoch()
    for node, predicate in changes:
        network.set_predicate(node % nodes, predicate)
    network.settle()
    network.frames.clear()
    network.send(network.rng.randrange(nodes), Message({"a": 1, "b": 2}))
    network.settle()
    carried = {link: n for link, n in network.frames.items() if link[2] is FrameType.MSG}
    assert all(count == 1 for count in carried.values())
    # A tree: no node is entered from two sides.
    entered = Counter(receiver for _, receiver, _ in carried)
    assert all(count == 1 for count in entered.values())


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
@given(
    SEEDS,
    st.integers(2, 8),
    st.lists(st.tuples(st.integers(0, 7), PREDICATES), max_size=10),
)
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
