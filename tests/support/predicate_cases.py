"""Hypothesis strategies for predicates and messages of networks in memory; the check of deliveries."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st

from router.predicates.covering.algebra import disjoin
from router.predicates.model import EVERYTHING, NOTHING, Message, Operator, matches
from router.wire.frames import FrameType
from tests.support.protocol_network import Network, integer, one

CONSTRAINTS = st.builds(
    integer,
    st.sampled_from("ab"),
    st.sampled_from([Operator.EQ, Operator.LT, Operator.GT, Operator.NE]),
    st.integers(0, 3),
)

FILTERS = st.lists(CONSTRAINTS, min_size=1, max_size=2).map(lambda chosen: one(*chosen))

PREDICATES = st.one_of(
    st.just(NOTHING),
    st.just(EVERYTHING),
    FILTERS,
    st.builds(disjoin, FILTERS, FILTERS),
)

MESSAGES = st.fixed_dictionaries({"a": st.integers(0, 3)}, optional={"b": st.integers(0, 3)}).map(Message)

SEEDS = st.integers(0, 2**32)


def expect_exact_delivery(network: Network, messages: list[Message]) -> None:
    """Every node sends every message; each arrives once wherever p0 selects it, and nowhere else.

    A router sends a message at most once over each of its interfaces, on the tree or not.
    """
    for node in network.routers:
        for message in messages:
            network.frames.clear()
            sent = network.send(node, message)
            network.settle()
            expected = Counter(
                other for other, predicate in network.predicates.items() if matches(predicate, message)
            )
            assert network.delivered[sent] == expected, (sent, message)
            carried = [count for (*_, kind), count in network.frames.items() if kind is FrameType.MSG]
            assert set(carried) <= {1}
