"""Sender requests and update replies, for any graph, predicates and order of events."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings, strategies as st

from router.predicates import NOTHING, Message, Operator
from router.protocol.options import RequestPolicyName
from testbed.controller.trees import LAYERS
from tests.support.fuzz import cases
from tests.support.network_cases import (
    CHANGES,
    MESSAGE_LISTS,
    OPTIONS,
    STEPS,
    Steps,
    World,
    ask_once,
    expect_exact_delivery,
    play,
    settled,
    table_errors,
    worlds,
)
from tests.support.protocol_network import integer, links_on_cycles, one
from tests.support.schemes import EXACT_SCHEMES

#: The schemes with SRs that lose no receiver.
SCHEMES = ("pif", "pif-classes")
#: Few predicates that cover each other or not.
WIDE, NARROW, ELSEWHERE = (
    one(integer("a", operator, value))
    for operator, value in ((Operator.GT, 0), (Operator.GT, 2), (Operator.EQ, 0))
)
#: SRs by a policy, and RAs that keep their distance.
_BY_POLICY = replace(
    OPTIONS, ra_min_interval_s=0.5, ra_jitter_s=0.2, sr_period_s=0.7, sr_threshold=1, sr_min_interval_s=0.3
)


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=cases(125))
@given(
    worlds(extra=6),
    STEPS,
    STEPS,
    st.booleans(),
    st.sampled_from(get_args(RequestPolicyName)),
    st.sampled_from(list(LAYERS)),
)
def test_one_round_mends_losses_reordering_and_changes_of_the_network(
    scheme: str, world: World, steps: Steps, later: Steps, reuse: bool, policy: RequestPolicyName, layer: str
) -> None:
    """Links fail and return, parts are cut off, frames are lost and overtake each other.

    Once it is quiet, one SR of each router makes every table exact, in the network as it then is; later
    changes lose no receiver.
    """
    options = replace(
        OPTIONS,
        scheme=scheme,
        ur_reuse=reuse,
        readvertise_jitter_s=0.02,
        sr_policy=policy,
        sr_period_s=2.0,
        sr_threshold=1,
    )
    network = world.network(options, layer=layer)
    network.loss, network.reordering = 0.2, True
    rng = network.rng
    links = list(network.graph.edges)

    def something() -> None:
        if rng.random() < 0.2:
            network.send(rng.randrange(world.nodes), Message({"a": rng.randrange(4)}))
        network.wait(rng.choice((0.0, 0.01, 0.1)))
        network.some_steps()

    network.background = something
    for step in steps:
        play(network, [step])
        something()
        if rng.random() < 0.3:
            network.new_epoch(tuple(rng.sample(links, rng.randrange(min(3, len(links) + 1)))))
    network.settle_all()
    network.loss, network.reordering = 0.0, False
    ask_once(network)
    assert table_errors(network, exact=True) == []
    assert table_errors(settled(network, later), exact=False) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=cases(200))
@given(worlds(3, 7), st.booleans())
def test_requests_while_trees_change_lose_nobody(scheme: str, world: World, reuse: bool) -> None:
    """Links fail and return; between any two frames of the controller routers ask, change, and wait."""
    nodes = world.nodes
    network = world.network(replace(OPTIONS, scheme=scheme, ur_reuse=reuse, readvertise_jitter_s=0.02))
    rng = network.rng
    for node in range(nodes):
        network.set_predicate(node, rng.choice((NOTHING, WIDE, NARROW, ELSEWHERE)))
    network.settle()

    def something() -> None:
        what = rng.randrange(8)
        if what == 0:
            network.set_predicate(rng.randrange(nodes), rng.choice((WIDE, NARROW, ELSEWHERE)))
        elif what < 6:
            network.request_update(rng.randrange(nodes))
        network.wait(rng.choice((0.0, 0.01)))
        for _ in range(rng.choice((0, 4, 12, 40))):
            network.step()

    network.background = something
    cycles = links_on_cycles(network.graph)
    for down in ((rng.choice(cycles),) if cycles else (), ()):
        network.new_epoch(down)
        network.some_steps()
    network.settle()
    assert table_errors(network, exact=False) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=cases(250))
@given(worlds(3, 7, 4), st.booleans(), st.sampled_from(get_args(RequestPolicyName)))
def test_a_receiver_that_narrows_and_widens_is_never_lost(
    scheme: str, world: World, reuse: bool, policy: RequestPolicyName
) -> None:
    """Few predicates that cover each other, and frames in every order, of one link as well.

    Routers ask many SRs; or messages and periods make them due, and RAs keep their distance.
    """
    by_policy = policy != "never"
    options = replace(_BY_POLICY if by_policy else OPTIONS, scheme=scheme, ur_reuse=reuse, sr_policy=policy)
    network = world.network(options)
    rng = network.rng
    network.reordering = rng.random() < 0.5
    receivers = rng.sample(range(world.nodes), 2)
    for _ in range(rng.randrange(4, 30)):
        if rng.random() < 0.5:
            network.set_predicate(rng.choice(receivers), rng.choice((WIDE, NARROW, NARROW, ELSEWHERE)))
        elif by_policy:
            network.send(rng.randrange(world.nodes), Message({"a": rng.randrange(4)}))
            network.wait(rng.choice((0.0, 0.05, 0.4)))
        else:
            network.request_update(rng.randrange(world.nodes))
        for _ in range(rng.choice((0, 1, 2, 4, 8, 30))):
            network.step()
    network.settle()
    assert table_errors(network, exact=False) == []


# With confirmed control frames, without a repairing SR.


_LOSSES = st.sampled_from((0.05, 0.1, 0.2))
_RELIABLE = replace(OPTIONS, reliable_control=True)


@pytest.mark.parametrize("scheme", ["pif", "pif-classes"])
@settings(max_examples=cases(100))
@given(worlds(), STEPS, _LOSSES, st.booleans(), st.sampled_from([None, 1]))
def test_no_receiver_is_missing_from_a_table_after_losses(
    scheme: str, world: World, steps: Steps, loss: float, reuse: bool, most: int | None
) -> None:
    """Predicates change and routers ask, while frames and RECEIPTs are lost and overtake each other."""
    network = world.network(replace(_RELIABLE, scheme=scheme, ur_reuse=reuse, max_filters=most))
    network.loss, network.reordering = loss, True
    assert table_errors(settled(network, steps), exact=False) == []


@pytest.mark.parametrize("scheme", EXACT_SCHEMES)
@settings(max_examples=cases(30))
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
