"""Late, repeated and reordered frames of the controller, restarts, failing links and short hop limits."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from router.protocol.options import RouterOptions
from tests.support.adversary import attack, first_wrong_delivery, random_predicate
from tests.support.fuzz import cases
from tests.support.predicate_cases import SEEDS
from tests.support.protocol_network import Network, random_graph


@settings(max_examples=cases(300), deadline=None)
@given(SEEDS)
def test_no_interleaving_loses_doubles_or_invents_a_delivery(seed: int) -> None:
    assert attack(seed) is None


@settings(max_examples=cases(300), deadline=None)
@given(SEEDS, st.integers(3, 9), st.integers(0, 3), st.integers(1, 5), st.booleans())
def test_every_receiver_within_the_hop_limit_is_reached(
    seed: int, nodes: int, extra: int, hop_limit: int, asks: bool
) -> None:
    """Few predicates, so that advertisements of near and far receivers cover each other."""
    rng = random.Random(seed)
    network = Network(random_graph(rng, nodes, extra), RouterOptions(hop_limit=hop_limit), seed)
    network.new_epoch()
    predicates = [random_predicate(rng) for _ in range(2)]
    for _ in range(2 * nodes):
        network.set_predicate(rng.randrange(nodes), rng.choice(predicates))
        if asks and rng.random() < 0.3:
            network.request_update(rng.randrange(nodes))
        if rng.random() < 0.7:
            network.settle()
        else:
            network.some_steps()
    network.settle()
    assert first_wrong_delivery(rng, network, network.graph, (), hop_limit) is None
