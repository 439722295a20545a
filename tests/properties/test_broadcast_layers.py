"""On every broadcast layer, a message reaches exactly its receivers: controller tables, real routers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates.model import Message, Predicate
from router.protocol.options import RouterOptions
from testbed.controller.trees import LAYERS
from tests.support.predicate_cases import MESSAGES, PREDICATES, SEEDS, expect_exact_delivery
from tests.support.protocol_network import Network, links_on_cycles, random_graph
from tests.support.pull_cases import OPTIONS, STEPS, play, table_errors
from tests.support.schemes import EXACT_SCHEMES


@pytest.mark.parametrize("layer", LAYERS)
@settings(max_examples=60, deadline=None)
@given(
    scheme=st.sampled_from(EXACT_SCHEMES),
    seed=SEEDS,
    nodes=st.integers(2, 8),
    extra=st.integers(0, 8),
    changes=st.lists(st.tuples(st.integers(0, 7), PREDICATES), max_size=12),
    messages=st.lists(MESSAGES, min_size=1, max_size=2),
)
def test_every_message_reaches_exactly_its_receivers(
    layer: str,
    scheme: str,
    seed: int,
    nodes: int,
    extra: int,
    changes: list[tuple[int, Predicate]],
    messages: list[Message],
) -> None:
    """At first, and when a link has failed and returned."""
    graph = random_graph(random.Random(seed), nodes, extra)
    network = Network(graph, RouterOptions(scheme=scheme), seed)
    network.layer = layer
    network.new_epoch()
    for node, predicate in changes:
        network.set_predicate(node % nodes, predicate)
        network.some_steps()
    network.settle()
    expect_exact_delivery(network, messages)
    allowed = {"ra_covered", "reverse_path", "own_frame"} if layer == "rpf" else {"ra_covered"}
    assert set(network.dropped()) <= allowed
    for down in (links_on_cycles(graph)[:1], ()):
        network.new_epoch(tuple(down))
        network.settle()
        expect_exact_delivery(network, messages)


@pytest.mark.parametrize("layer", LAYERS)
@settings(max_examples=100, deadline=None)
@given(SEEDS, st.integers(2, 8), st.integers(0, 8), STEPS)
def test_one_round_of_requests_makes_every_table_exact(
    layer: str, seed: int, nodes: int, extra: int, steps: list[tuple[int, Predicate | None]]
) -> None:
    """With the controller's tables of reusable replies and of pruned children."""
    network = Network(random_graph(random.Random(seed), nodes, extra), OPTIONS, seed)
    network.layer = layer
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
