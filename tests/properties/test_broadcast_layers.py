"""On every broadcast layer, a message reaches exactly its receivers: controller tables, real routers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates import Message
from router.protocol.options import RouterOptions
from testbed.controller.trees import LAYERS
from tests.support.network_cases import (
    CHANGES,
    MESSAGE_LISTS,
    OPTIONS,
    STEPS,
    Steps,
    World,
    ask_once,
    expect_exact_delivery,
    settled,
    table_errors,
    worlds,
)
from tests.support.protocol_network import links_on_cycles
from tests.support.schemes import EXACT_SCHEMES


@pytest.mark.parametrize("layer", LAYERS)
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(EXACT_SCHEMES), worlds(), CHANGES, MESSAGE_LISTS)
def test_every_message_reaches_exactly_its_receivers(
    layer: str, scheme: str, world: World, changes: Steps, messages: list[Message]
) -> None:
    """At first, and when a link has failed and returned."""
    network = settled(world.network(RouterOptions(scheme=scheme), layer=layer), changes)
    expect_exact_delivery(network, messages)
    allowed = {"ra_covered", "reverse_path", "own_frame"} if layer == "rpf" else {"ra_covered"}
    assert set(network.dropped()) <= allowed
    spare = links_on_cycles(network.graph)
    for down in ([network.rng.choice(spare)] if spare else [], []):
        network.new_epoch(tuple(down))
        network.settle()
        expect_exact_delivery(network, messages)


@pytest.mark.parametrize("layer", LAYERS)
@settings(max_examples=100, deadline=None)
@given(worlds(), STEPS)
def test_one_round_of_requests_makes_every_table_exact(layer: str, world: World, steps: Steps) -> None:
    """With the controller's tables of reusable replies and of pruned children."""
    network = settled(world.network(OPTIONS, layer=layer), steps)
    ask_once(network)
    assert table_errors(network, exact=True) == []
    assert all(router.counters.urs_missed == 0 for router in network.routers.values())
