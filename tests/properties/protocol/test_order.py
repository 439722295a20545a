"""No order of frames and events loses, doubles or invents a delivery (docs/adr/0032)."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.protocol.options import SCHEMES, RouterOptions
from tests.support.adversary import attack, first_wrong_delivery, random_predicate
from tests.support.fuzz import cases
from tests.support.network_cases import OPTIONS, SEEDS, play, table_errors
from tests.support.protocol_network import Network, random_graph
from tests.support.schemes import EXACT_SCHEMES


@settings(max_examples=cases(450), deadline=None)
@given(SEEDS, st.just("pif") | st.sampled_from(EXACT_SCHEMES))
def test_no_interleaving_loses_doubles_or_invents_a_delivery(seed: int, scheme: str) -> None:
    """Late, repeated and reordered frames of the controller, restarts, failing links, short hop limits."""
    assert attack(seed, scheme) is None


#: The schemes whose tables have predicates by interface, which RAs widen and URs replace.
_PULLING = ("pif", "pif-classes")


def _played(seed: int, scheme: str, extra_links: int | None = None) -> Network:
    """Plays the case of a seed: predicates widen and narrow, and routers ask; frames move in between."""
    rng = random.Random(seed)
    nodes = rng.randint(2, 9)
    graph = random_graph(rng, nodes, rng.randrange(9) if extra_links is None else extra_links)
    options = RouterOptions(scheme=scheme)
    if scheme in _PULLING:
        options = replace(OPTIONS, scheme=scheme, ur_reuse=rng.random() < 0.5)
    network = Network(graph, options, seed)
    network.reordering = True
    network.new_epoch()
    few = [random_predicate(rng) for _ in range(3)]
    asks = 0.4 if scheme in _PULLING else 0.0
    steps = [(rng.randrange(nodes), None if rng.random() < asks else rng.choice(few)) for _ in range(14)]
    play(network, steps)
    network.settle()
    return network


def _wrong_delivery(seed: int, network: Network) -> str | None:
    """The first delivery that is missed, doubled or spurious."""
    return first_wrong_delivery(random.Random(seed), network, network.graph, (), network.options.hop_limit)


@pytest.mark.parametrize("scheme", EXACT_SCHEMES)
@settings(max_examples=cases(60), deadline=None)
@given(SEEDS)
def test_no_order_of_the_frames_of_a_link_loses_a_receiver(scheme: str, seed: int) -> None:
    network = _played(seed, scheme)
    if scheme in _PULLING:
        assert table_errors(network, exact=False) == []
    assert _wrong_delivery(seed, network) is None


@pytest.mark.parametrize("scheme", [each for each in SCHEMES if each not in EXACT_SCHEMES])
@settings(max_examples=cases(60), deadline=None)
@given(SEEDS)
def test_nor_does_any_order_on_a_tree_with_the_filter_of_the_paper(scheme: str, seed: int) -> None:
    assert _wrong_delivery(seed, _played(seed, scheme, extra_links=0)) is None
