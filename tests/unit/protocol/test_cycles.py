"""Protocol cores leave no cycles: the collector of a live router looks at young objects only."""

from __future__ import annotations

import gc
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from router.predicates import Message
from router.protocol.services.attention.dissemination import AttentionOptions
from tests.support.adversary import random_predicate
from tests.support.attention_network import AttentionNetwork
from tests.support.attention_network import play as play_attention
from tests.support.network_cases import OPTIONS, World, play
from tests.support.protocol_network import random_graph


def _attention(seed: int) -> object:
    rng = random.Random(seed)
    options = AttentionOptions(
        strategy="pdp" if seed % 2 else "eon",
        cache_publications=5,
        flushing="neighbour",
        pace_mbps=0.01,
        scheduler="cbf",
        top_up_s=0.2,
    )
    network = AttentionNetwork(random_graph(rng, 4, 1), options, seed)
    play_attention(network, rng, 150)
    return network


def _messages(scheme: str) -> Callable[[int], object]:
    def played(seed: int) -> object:
        network = World(seed, 4, 1).network(replace(OPTIONS, scheme=scheme))
        rng = network.rng
        for _ in range(60):
            node = rng.randrange(4)
            play(network, [(node, random_predicate(rng)), (node, None)])
            network.send(node, Message({"a": rng.randrange(9)}))
            if rng.random() < 0.1:
                network.new_epoch()
        network.settle()
        return network

    return played


def _objects() -> Counter[str]:
    """The objects of classes of `router` that the collector knows, by name of the class."""
    return Counter(
        type(each).__qualname__
        for each in gc.get_objects()
        if str(getattr(type(each), "__module__", "")).startswith("router.")
    )


# The networks are kept: routers are cycles, and a live process has one as long as it lives. Objects are
# counted before and after: `gc.garbage` lacks those of a generator, which the collector closes first.
@pytest.mark.parametrize("played", [_attention, _messages("pif"), _messages("psf"), _messages("drp")])
def test_events_leave_no_cycles(played: Callable[[int], object]) -> None:
    played(0)
    # The collector looks at no object of the tests before.
    gc.freeze()
    gc.disable()
    try:
        kept = [played(seed) for seed in range(1, 4)]
        before = _objects()
        gc.collect()
        found = before - _objects()
    finally:
        gc.enable()
        gc.unfreeze()
    assert kept
    assert not found
