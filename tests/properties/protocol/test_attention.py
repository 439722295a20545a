"""The attention-limited service on random graphs, with delays, reordering, loss, duplicates, new epochs."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import example, given, settings, strategies as st

from router.protocol.services.attention.dissemination import AttentionOptions, FanOut, StrategyName
from tests.support.attention_network import ANY_OPTIONS, AttentionNetwork, Key, play, predicate_of
from tests.support.protocol_network import random_graph

#: Half of the networks have caches of one publication, and flush what these replace.
_OPTIONS = ANY_OPTIONS | st.builds(
    lambda options, flushing: replace(options, cache_publications=1, flushing=flushing),
    ANY_OPTIONS,
    st.sampled_from(["neighbour", "network"]),
)
_LOSS = st.sampled_from([0.0, 0.1])
_DUPLICATION = st.sampled_from([0.0, 0.2])


@given(_OPTIONS, st.integers(0, 2**32), st.booleans(), _LOSS, _DUPLICATION)
@settings(max_examples=60)
def test_no_subscription_gets_what_it_must_not(
    options: AttentionOptions, seed: int, reordering: bool, loss: float, duplication: float
) -> None:
    rng = random.Random(seed)
    network = AttentionNetwork(random_graph(rng, 6, 2), options, seed)
    network.reordering, network.loss, network.duplication = reordering, loss, duplication
    play(network, rng, 60)


@pytest.mark.parametrize("strategy", get_args(StrategyName))
@given(
    st.integers(0, 2**32),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["whole", "sequential"]),
)
@example(1609, False, True, False, "whole").via("a copy without the flag PENDING overtakes the one with it")
@settings(max_examples=30)
def test_without_loss_and_eviction_no_subscription_starves(
    strategy: StrategyName, seed: int, en_route: bool, everything: bool, reordering: bool, fan_out: FanOut
) -> None:
    """Also if other frames of a link overtake its PUBs, as in the queues of a router."""
    options = AttentionOptions(
        strategy=strategy,
        remote="all" if everything else "pending",
        en_route=en_route,
        beta_s=0.5,
        fan_out=fan_out,
    )
    rng = random.Random(seed)
    network = AttentionNetwork(random_graph(rng, 6, 2), options, seed)
    network.reordering = reordering
    nodes = sorted(network.graph)
    network.new_epoch()
    network.settle()
    keys: list[Key] = []
    for _ in range(40):
        chance = rng.random()
        if chance < 0.2 or not keys:
            predicate = predicate_of((rng.randrange(3),))
            keys.append(network.register(rng.choice(nodes), predicate, rng.randint(1, 5), 10.0, 1000.0))
        elif chance < 0.35:
            key = rng.choice(keys)
            if network.rounds[key][-1].outcome is not None:
                network.refresh(key)
        else:
            network.publish(rng.choice(nodes), x=rng.randrange(3))
        # No frame is under way when the next request comes, or when time passes.
        network.settle()
        network.wait(0.4)
        network.settle()
    for _ in range(30):
        network.wait(0.4)
        network.settle()
    for key, rounds in network.rounds.items():
        for each in rounds:
            assert len(each.got) >= min(each.began.max, network.available(each)), (key, each)


@given(st.sampled_from(get_args(StrategyName)), st.integers(0, 2**32), st.integers(0, 12), st.booleans())
@settings(max_examples=60)
def test_a_sequential_sub_satisfies_a_subscription_although_a_frame_is_lost(
    strategy: StrategyName, seed: int, before: int, new_epoch: bool
) -> None:
    """Whichever frame it is, or if the trees change meanwhile: the home repeats the SUB in time.

    At 4 s it repeats no SUB that a child has sent back; a SUB that was lost after that, at 6 s.
    """
    rng = random.Random(seed)
    options = AttentionOptions(strategy=strategy, fan_out="sequential")
    network = AttentionNetwork(random_graph(rng, 6, 2), options, seed)
    network.new_epoch()
    network.settle()
    for node in sorted(network.graph)[1:]:
        for _ in range(2):
            network.publish(node, x=1)
    key = network.register(0, "x = 1", 4, 8.0, 1000.0)
    for _ in range(before):
        network.step()
    network.loss = 1.0
    network.step()
    network.loss = 0.0
    if new_epoch:
        network.new_epoch()
    network.settle()
    for wait_s in (4.0, 2.0):
        network.wait(wait_s)
        network.settle()
    (only,) = network.rounds[key]
    assert len(only.got) == 4


@given(
    st.sampled_from(get_args(StrategyName)),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32),
    st.booleans(),
)
@settings(max_examples=40)
def test_a_subscription_that_outlives_its_router_gets_nothing_twice(
    strategy: StrategyName, exact: bool, everything: bool, seed: int, reordering: bool
) -> None:
    """Routers restart; the applications register their subscriptions as refreshed ones."""
    options = AttentionOptions(
        strategy=strategy,
        remote="all" if everything else "pending",
        en_route=True,
        history="exact" if exact else "none",
    )
    rng = random.Random(seed)
    network = AttentionNetwork(random_graph(rng, 5, 2), options, seed)
    network.reordering = reordering
    nodes = sorted(network.graph)
    network.new_epoch()
    network.settle()
    node, predicate = rng.choice(nodes), predicate_of((0, 1))
    key = network.register(node, predicate, 3, 8.0, 1000.0)
    got = set()
    for _ in range(40):
        chance = rng.random()
        if chance < 0.5:
            network.publish(rng.choice(nodes), x=rng.randrange(3))
        elif chance < 0.6:
            network.register(rng.choice(nodes), predicate, 2, 2.0, 1000.0)
        elif chance < 0.7 and network.rounds[key][-1].outcome is not None:
            network.refresh(key)
        elif chance < 0.78:
            # What is under way arrives: a router that has forgotten takes a PUB that it had for a first one.
            network.settle()
            got |= {id_ for each in network.rounds[key] for id_ in each.got}
            network.restart(node)
            network.lost(node)
            network.settle()
            key = network.register(node, predicate, 3, 8.0, 1000.0, refreshed=True)
        else:
            network.wait(0.3)
            for _ in range(rng.randrange(9)):
                network.step()
        again = got & {id_ for each in network.rounds[key] for id_ in each.got}
        assert not again, f"{again} twice to a subscription of {node}"
