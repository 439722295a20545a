"""Routing schemes and broadcast layers, all that are registered; and what sets each scheme apart."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from router.predicates import Message
from router.protocol.options import SCHEMES, RouterOptions
from testbed.controller.trees import LAYERS
from tests.support.fuzz import cases
from tests.support.network_cases import (
    CHANGES,
    MESSAGE_LISTS,
    Steps,
    World,
    expect_exact_delivery,
    settled,
    worlds,
)
from tests.support.protocol_network import links_on_cycles
from tests.support.router_tables import predicates_of
from tests.support.schemes import EXACT_SCHEMES


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=cases(40))
@given(worlds(extra=0), CHANGES, MESSAGE_LISTS)
def test_on_a_tree_every_scheme_delivers_exactly(
    scheme: str, world: World, changes: Steps, messages: list[Message]
) -> None:
    network = settled(world.network(RouterOptions(scheme=scheme)), changes)
    assert scheme != "flooding" or not network.frames, "flooding advertises nothing"
    expect_exact_delivery(network, messages)


@pytest.mark.parametrize("layer", LAYERS)
@settings(max_examples=60)
@given(st.sampled_from(EXACT_SCHEMES), worlds(), CHANGES, MESSAGE_LISTS)
def test_on_every_broadcast_layer_messages_reach_exactly_their_receivers(
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


@settings(max_examples=cases(60))
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
