"""Over-simplified routing tables cost false positives, never a receiver, with and without sender requests."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates.covering.algebra import disjoin
from router.predicates.model import Message, Predicate
from router.protocol.options import RouterOptions
from router.wire.header import LOCAL_INTERFACE
from tests.support.fuzz import cases
from tests.support.predicate_cases import FILTERS, MESSAGES, SEEDS, expect_exact_delivery
from tests.support.protocol_network import Network, random_graph
from tests.support.router_tables import predicates_of

PREDICATES = st.builds(disjoin, st.builds(disjoin, FILTERS, FILTERS), FILTERS)


@settings(max_examples=cases(100), deadline=None)
@given(
    SEEDS,
    st.integers(2, 8),
    st.integers(0, 6),
    st.integers(1, 2),
    st.lists(st.tuples(st.integers(0, 7), PREDICATES, st.booleans()), max_size=14),
    st.lists(MESSAGES, min_size=1, max_size=3),
)
def test_no_receiver_is_lost(
    seed: int,
    nodes: int,
    extra: int,
    most: int,
    changes: list[tuple[int, Predicate, bool]],
    messages: list[Message],
) -> None:
    network = Network(random_graph(random.Random(seed), nodes, extra), RouterOptions(max_filters=most), seed)
    network.new_epoch()
    for node, predicate, asks in changes:
        network.set_predicate(node % nodes, predicate)
        if asks:
            network.request_update(network.rng.randrange(nodes))
        network.some_steps()
    network.settle()
    for router in network.routers.values():
        for interface, known in predicates_of(router).items():
            assert interface == LOCAL_INTERFACE or len(known) <= 2 * most
    expect_exact_delivery(network, messages)
