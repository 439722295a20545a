"""With confirmed control frames, tables are right however many frames are lost, without a repairing SR."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from router.predicates import Message
from tests.support.fuzz import cases
from tests.support.network_cases import (
    CHANGES,
    MESSAGE_LISTS,
    OPTIONS,
    STEPS,
    Steps,
    World,
    expect_exact_delivery,
    play,
    settled,
    table_errors,
    worlds,
)
from tests.support.schemes import EXACT_SCHEMES

_LOSSES = st.sampled_from((0.05, 0.1, 0.2))
_RELIABLE = replace(OPTIONS, reliable_control=True)


@pytest.mark.parametrize("scheme", ["pif", "pif-classes"])
@settings(max_examples=cases(100), deadline=None)
@given(worlds(), STEPS, _LOSSES, st.booleans(), st.sampled_from([None, 1]))
def test_no_receiver_is_missing_from_a_table_after_losses(
    scheme: str, world: World, steps: Steps, loss: float, reuse: bool, most: int | None
) -> None:
    """Predicates change and routers ask, while frames and RECEIPTs are lost and overtake each other."""
    network = world.network(replace(_RELIABLE, scheme=scheme, ur_reuse=reuse, max_filters=most))
    network.loss, network.reordering = loss, True
    assert table_errors(settled(network, steps), exact=False) == []


@pytest.mark.parametrize("scheme", EXACT_SCHEMES)
@settings(max_examples=cases(30), deadline=None)
@given(worlds(most=7), CHANGES, CHANGES, MESSAGE_LISTS, _LOSSES)
def test_every_receiver_gets_messages_after_losses_and_changes_of_the_network(
    scheme: str, world: World, changes: Steps, later: Steps, messages: list[Message], loss: float
) -> None:
    """A link fails and returns and a router restarts while a part of the control frames is lost."""
    network = world.network(replace(_RELIABLE, scheme=scheme))
    network.loss = loss
    play(network, changes)
    network.new_epoch((network.rng.choice(sorted(network.graph.edges)),))
    network.restart(network.rng.randrange(world.nodes))
    play(network, later)
    network.new_epoch()
    network.settle()
    network.loss = 0.0
    expect_exact_delivery(network, messages)
