"""Late, repeated and reordered frames of the controller, restarts, failing links and short hop limits."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates import Message, Operator
from router.protocol.options import RouterOptions
from router.wire.frames import FrameType
from tests.bench import adversary
from tests.support.adversary import attack, first_wrong_delivery, random_predicate
from tests.support.fuzz import cases
from tests.support.network_cases import SEEDS, World, worlds
from tests.support.protocol_network import Network, graph_of, integer, one
from tests.support.schemes import EXACT_SCHEMES


@settings(max_examples=cases(450), deadline=None)
@given(SEEDS, st.just("pif") | st.sampled_from(EXACT_SCHEMES))
def test_no_interleaving_loses_doubles_or_invents_a_delivery(seed: int, scheme: str) -> None:
    """Frames of one epoch overtake those of another, on its trees and on links."""
    assert attack(seed, scheme) is None


@pytest.mark.parametrize("scheme", ["psf", "ips", "drp"])
def test_an_advertisement_overtaken_on_another_epoch_s_tree_is_not_missed_on_its_own(scheme: str) -> None:
    """Its issuer has sent another one down all trees of the newer epoch: whoever can be reached gets that."""
    # The trees of the first epoch are the line 0-1-2-3; node 0 reaches 3 and 2 over a new link then.
    graph = graph_of([(0, 1, 1), (1, 2, 9), (2, 3, 1), (0, 3, 1)])
    network = Network(graph, RouterOptions(scheme=scheme, readvertise_jitter_s=0.0), 1)
    network.new_epoch(down=((0, 3),))
    network.settle()
    network.set_predicate(0, one(integer("x", Operator.GT, 1)))
    # The RA waits on the first link while the next epoch begins; node 2 gets its COMMIT late.
    network.start_epoch()
    for kind in (FrameType.TABLE, FrameType.COMMIT):
        for node in graph:
            if (node, kind) != (2, FrameType.COMMIT):
                network.tell(node, kind, network.epoch)
    network.deliver(0, 1, FrameType.RA, newest_first=True)
    assert network.routers[1].counters.dropped == {"ra_old": 1}
    network.settle()
    for late in (True, False):
        for source in graph:
            sent = network.send(source, Message({"x": 2}))
            network.settle()
            assert network.delivered[sent] == {0: 1}
        if late:
            network.tell(2, FrameType.COMMIT, network.epoch)
            network.settle()


@settings(max_examples=cases(300), deadline=None)
@given(worlds(3, 9, 3), st.integers(1, 5), st.booleans())
def test_every_receiver_within_the_hop_limit_is_reached(world: World, hop_limit: int, asks: bool) -> None:
    """Few predicates, so that advertisements of near and far receivers cover each other."""
    rng, nodes = random.Random(world.seed), world.nodes
    network = world.network(RouterOptions(hop_limit=hop_limit))
    predicates = [random_predicate(rng) for _ in range(2)]
    for _ in range(2 * nodes):
        network.set_predicate(rng.randrange(nodes), rng.choice(predicates))
        if asks and rng.random() < 0.3:
            network.request_update(rng.randrange(nodes))
        if rng.random() < 0.7:
            network.settle()
        else:
            network.some_steps()
    network.settle()
    assert first_wrong_delivery(rng, network, network.graph, (), hop_limit) is None


@pytest.mark.parametrize("scheme", ["pif", "pif-classes", "psf"])
def test_the_nodes_within_the_default_hop_limit_are_reached_on_a_line_of_70(scheme: str) -> None:
    """Nodes that are covered by a node out of reach, and then by one that is as far as the limit goes."""
    options = RouterOptions(scheme=scheme)
    network = Network(graph_of([(node, node + 1, 1) for node in range(69)]), options, 1)
    network.new_epoch()
    network.settle()
    wanted = one(integer("x", Operator.EQ, 1))
    reached: dict[int, dict[int, int]] = {}
    for node in (69, 64, 63):
        network.set_predicate(node, wanted)
        network.settle()
        sent = network.send(0, Message({"x": 1}))
        network.settle()
        reached[node] = dict(network.delivered[sent])
    assert options.hop_limit == 64
    assert reached == {69: {}, 64: {64: 1}, 63: {64: 1, 63: 1}}


def test_the_benchmark_plays_cases_of_the_scheme_that_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[tuple[int, str]] = []

    def noted(seed: int, scheme: str) -> str | None:
        played.append((seed, scheme))
        return attack(seed, scheme)

    monkeypatch.setattr(adversary, "attack", noted)
    adversary.main(**adversary.configure(["--scheme", "psf", "--seed", "7", "--cases", "2"]))
    assert played == [(7, "psf"), (8, "psf")]
    assert "seeds 7 to 8: no counterexample" in capsys.readouterr().out
