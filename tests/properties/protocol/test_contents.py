"""Contents: deliveries do not depend on how predicates are compared; uncovered tables are verbatim."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates.model import Filter, Message, Predicate, matches
from router.protocol.options import CONTENTS, RouterOptions
from router.wire.header import LOCAL_INTERFACE
from tests.support.fuzz import cases
from tests.support.predicate_cases import MESSAGES, PREDICATES, SEEDS, expect_exact_delivery
from tests.support.protocol_network import Network, random_graph
from tests.support.pull_cases import OPTIONS, STEPS, behind, play
from tests.support.router_tables import predicates_of

CHANGES = st.lists(st.tuples(st.integers(0, 7), PREDICATES), max_size=12)


@settings(max_examples=cases(60), deadline=None)
@given(SEEDS, st.integers(2, 8), st.integers(0, 6), CHANGES, st.lists(MESSAGES, min_size=1, max_size=3))
def test_deliveries_are_the_same_under_every_content(
    seed: int,
    nodes: int,
    extra: int,
    changes: list[tuple[int, Predicate]],
    messages: list[Message],
) -> None:
    delivered = []
    for covering in CONTENTS:
        network = Network(
            random_graph(random.Random(seed), nodes, extra),
            RouterOptions(covering=covering),
            seed,
            "counting",
        )
        network.new_epoch()
        for node, predicate in changes:
            network.set_predicate(node % nodes, predicate)
            network.some_steps()
        network.settle()
        expect_exact_delivery(network, messages)
        delivered.append(network.delivered)
    assert all(each == delivered[0] for each in delivered)


def filters_behind(network: Network, node: int, neighbour: int) -> set[Filter]:
    """The filters that the nodes behind a link have declared."""
    return {
        filter_
        for other in behind(network, node, neighbour)
        for filter_ in network.predicates.get(other, Predicate())
    }


def expect_declared_filters(network: Network) -> None:
    """Every table holds the filters that were declared behind each interface, each once, and no others."""
    for node, router in network.routers.items():
        table = predicates_of(router)
        assert set(table.get(LOCAL_INTERFACE, ())) == set(network.predicates.get(node, ()))
        for interface, neighbour in router.interfaces().items():
            held = list(table.get(interface, ()))
            assert len(held) == len(set(held))
            assert set(held) == filters_behind(network, node, neighbour), (node, interface)


@settings(max_examples=cases(80), deadline=None)
@given(SEEDS, st.integers(2, 8), st.integers(0, 6), st.lists(PREDICATES, min_size=8, max_size=8))
def test_advertisements_alone_leave_exactly_the_declared_filters(
    seed: int, nodes: int, extra: int, predicates: list[Predicate]
) -> None:
    network = Network(random_graph(random.Random(seed), nodes, extra), RouterOptions(covering="none"), seed)
    network.new_epoch()
    for node, predicate in zip(range(nodes), predicates, strict=False):
        network.set_predicate(node, predicate)
        network.some_steps()
    network.settle()
    expect_declared_filters(network)


@settings(max_examples=cases(80), deadline=None)
@given(SEEDS, st.integers(2, 8), st.integers(0, 6), STEPS)
def test_a_round_of_requests_leaves_exactly_the_declared_filters(
    seed: int, nodes: int, extra: int, steps: list[tuple[int, Predicate | None]]
) -> None:
    options = RouterOptions(
        sr_timeout_s=OPTIONS.sr_timeout_s, ur_freshness_s=OPTIONS.ur_freshness_s, covering="none"
    )
    network = Network(random_graph(random.Random(seed), nodes, extra), options, seed)
    network.new_epoch()
    play(network, steps)
    network.settle()
    network.now += OPTIONS.ur_freshness_s + 0.1
    for node in network.rng.sample(range(nodes), nodes):
        network.request_update(node)
        network.some_steps()
    network.settle()
    expect_declared_filters(network)


@settings(max_examples=cases(100), deadline=None)
@given(st.lists(PREDICATES, max_size=8), MESSAGES)
def test_a_builder_of_any_content_matches_what_was_added(
    predicates: list[Predicate], message: Message
) -> None:
    for name in CONTENTS:
        content = CONTENTS[name]()
        builder = content.builder()
        for predicate in predicates:
            covered = builder.covers(predicate)
            assert builder.add(predicate) is not covered
            assert builder.covers(predicate)
        expected = any(matches(predicate, message) for predicate in predicates)
        assert builder.matches(message) == expected
        assert matches(builder.predicate, message) == expected
        assert content.builder(builder.predicate).members == builder.members
