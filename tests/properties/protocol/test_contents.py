"""Contents: deliveries do not depend on how predicates are compared; uncovered tables are verbatim."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates import Filter, Message, Predicate, matches
from router.protocol.options import CONTENTS, RouterOptions
from router.wire.header import LOCAL_INTERFACE
from tests.support.fuzz import cases
from tests.support.network_cases import (
    CHANGES,
    MESSAGE_LISTS,
    MESSAGES,
    OPTIONS,
    PREDICATES,
    STEPS,
    Steps,
    World,
    ask_once,
    behind,
    expect_exact_delivery,
    settled,
    worlds,
)
from tests.support.protocol_network import Network
from tests.support.router_tables import predicates_of


@settings(max_examples=cases(60), deadline=None)
@given(worlds(extra=6), CHANGES, MESSAGE_LISTS)
def test_deliveries_are_the_same_under_every_content(
    world: World, changes: Steps, messages: list[Message]
) -> None:
    delivered = []
    for covering in CONTENTS:
        network = settled(world.network(RouterOptions(covering=covering), "counting"), changes)
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
@given(worlds(extra=6), st.lists(PREDICATES, min_size=8, max_size=8), STEPS)
def test_advertisements_and_a_round_of_requests_leave_exactly_the_declared_filters(
    world: World, predicates: list[Predicate], steps: Steps
) -> None:
    network = world.network(replace(OPTIONS, covering="none"))
    expect_declared_filters(settled(network, list(enumerate(predicates[: world.nodes]))))
    ask_once(settled(network, steps))
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
