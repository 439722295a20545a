"""With confirmed control frames, tables are right however many frames are lost, without a repairing SR."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates.model import Message, Operator, Predicate, matches
from tests.support.fuzz import cases
from tests.support.predicate_cases import MESSAGES, PREDICATES, SEEDS, expect_exact_delivery
from tests.support.protocol_network import Network, integer, one, random_graph
from tests.support.pull_cases import OPTIONS, STEPS, play, table_errors
from tests.support.schemes import EXACT_SCHEMES

_RATES = (0.05, 0.1, 0.2)
_LOSSES = st.sampled_from(_RATES)
_RELIABLE = replace(OPTIONS, reliable_control=True)


@pytest.mark.parametrize("scheme", ["pif", "pif-classes"])
@settings(max_examples=cases(100), deadline=None)
@given(SEEDS, st.integers(2, 8), st.integers(0, 8), STEPS, _LOSSES, st.booleans())
def test_no_receiver_is_missing_from_a_table_after_losses(
    scheme: str,
    seed: int,
    nodes: int,
    extra: int,
    steps: list[tuple[int, Predicate | None]],
    loss: float,
    reuse: bool,
) -> None:
    """Predicates change and routers ask, while frames and RECEIPTs are lost and overtake each other."""
    options = replace(_RELIABLE, scheme=scheme, ur_reuse=reuse)
    network = Network(random_graph(random.Random(seed), nodes, extra), options, seed)
    network.loss, network.reordering = loss, True
    network.new_epoch()
    play(network, steps)
    network.settle()
    assert table_errors(network, exact=False) == []


@pytest.mark.parametrize("scheme", EXACT_SCHEMES)
@settings(max_examples=cases(30), deadline=None)
@given(
    SEEDS,
    st.integers(2, 7),
    st.lists(st.tuples(st.integers(0, 6), PREDICATES), min_size=1, max_size=8),
    st.lists(MESSAGES, min_size=1, max_size=2),
    _LOSSES,
)
def test_every_receiver_gets_messages_after_losses_and_changes_of_the_network(
    scheme: str,
    seed: int,
    nodes: int,
    changes: list[tuple[int, Predicate]],
    messages: list[Message],
    loss: float,
) -> None:
    """A link fails and returns and a router restarts while a part of the control frames is lost."""
    options = replace(_RELIABLE, scheme=scheme)
    network = Network(random_graph(random.Random(seed), nodes, nodes), options, seed)
    network.loss = loss
    network.new_epoch()
    link = network.rng.choice(sorted(network.graph.edges))
    for number, (node, predicate) in enumerate(changes):
        network.set_predicate(node % nodes, predicate)
        network.some_steps()
        if number == len(changes) // 2:
            network.new_epoch((link,))
            network.restart(network.rng.randrange(nodes))
    network.new_epoch()
    network.settle()
    network.loss = 0.0
    missed = [_missed(network, node, message) for node in network.routers for message in messages]
    assert missed == [set()] * len(missed)


def _missed(network: Network, node: int, message: Message) -> set[int]:
    """The nodes that want a message of a node and do not get it once."""
    sent = network.send(node, message)
    network.settle()
    got = network.delivered[sent]
    wanted = {other for other, predicate in network.predicates.items() if matches(predicate, message)}
    return wanted ^ set(got) | {other for other, count in got.items() if count != 1}


@pytest.mark.parametrize("loss", _RATES)
def test_best_effort_misses_receivers_where_confirmed_frames_miss_none(loss: float) -> None:
    """The same losses, with and without the option."""
    errors = {}
    for reliable in (False, True):
        missing = 0
        for seed in range(20):
            options = replace(OPTIONS, reliable_control=reliable)
            network = Network(random_graph(random.Random(seed), 8, 4), options, seed)
            network.loss = loss
            network.new_epoch()
            for node in network.routers:
                network.set_predicate(node, one(integer("a", Operator.EQ, node % 4)))
            network.settle()
            missing += len(table_errors(network, exact=False))
        errors[reliable] = missing
    assert errors[False] > 0
    assert errors[True] == 0


def test_without_losses_nothing_is_sent_again() -> None:
    network = Network(random_graph(random.Random(5), 8, 4), _RELIABLE, 5)
    network.new_epoch()
    for node in network.routers:
        network.set_predicate(node, one(integer("a", Operator.EQ, node % 4)))
        network.request_update(node)
    network.settle()
    expect_exact_delivery(network, [Message({"a": 1})])
    counters = [router.counters for router in network.routers.values()]
    assert [each.control_repeated + each.control_copies + each.control_unconfirmed for each in counters] == [
        0
    ] * len(counters)
