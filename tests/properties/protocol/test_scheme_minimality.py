"""Memory and delivery function of the routing schemes: the formulas of the slides on routing, part III."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given, settings, strategies as st

from router.predicates import Message, Operator, Predicate, matches
from router.protocol.options import SCHEMES, RouterOptions
from router.protocol.schemes import TablePart
from router.wire.frames import FrameType
from tests.support.adversary import attack, first_wrong_delivery, random_predicate
from tests.support.fuzz import cases
from tests.support.network_cases import (
    CHANGES,
    MESSAGES,
    OPTIONS,
    SEEDS,
    Steps,
    World,
    ask_once,
    play,
    settled,
    table_errors,
    worlds,
)
from tests.support.protocol_network import Graph, Network, graph_of, integer, one, path, random_graph
from tests.support.schemes import EXACT_SCHEMES

MINIMAL = ("psf", "ips", "drp")


def minimal_crossings(network: Network, source: int, message: Message) -> set[tuple[int, int]]:
    alive = network.graph.copy()
    alive.remove_edges_from(network.down)
    return {
        hop
        for node, predicate in network.predicates.items()
        if matches(predicate, message) and nx.has_path(alive, source, node)
        for hop in nx.utils.pairwise(path(alive, source, node))
    }


def expect_minimal(network: Network, message: Message) -> None:
    for source in network.routers:
        network.frames.clear()
        network.send(source, message)
        network.settle()
        carried = {(u, v): n for (u, v, kind), n in network.frames.items() if kind is FrameType.MSG}
        assert carried == dict.fromkeys(minimal_crossings(network, source, message), 1)


@pytest.mark.parametrize("scheme", MINIMAL)
@settings(max_examples=cases(40))
@given(worlds(3), CHANGES, MESSAGES)
def test_a_message_crosses_the_paths_to_its_receivers_and_no_other_link(
    scheme: str, world: World, changes: Steps, message: Message
) -> None:
    """Also when predicates were narrowed and withdrawn, without SRs; on the trees of another epoch; and when
    a router has restarted.
    """
    network = world.network(RouterOptions(scheme=scheme))
    for change in changes:
        play(network, [change])
        if network.rng.random() < 0.3:
            network.send(network.rng.randrange(world.nodes), message)
    for down in (None, (network.rng.choice(sorted(network.graph.edges)),), ()):
        if down is not None:
            network.new_epoch(down)
        network.settle()
        expect_minimal(network, message)
    network.restart(network.rng.randrange(world.nodes))
    network.settle()
    expect_minimal(network, message)


@settings(max_examples=cases(40))
@given(worlds(3), CHANGES, MESSAGES, st.booleans())
def test_pif_classes_is_minimal_when_urs_have_replaced_what_ras_widened(
    world: World, changes: Steps, message: Message, reuse: bool
) -> None:
    options = replace(OPTIONS, scheme="pif-classes", ur_reuse=reuse)
    network = settled(world.network(options), changes)
    for down in (None, (network.rng.choice(sorted(network.graph.edges)),)):
        if down is not None:
            network.new_epoch(down)
            network.settle()
        ask_once(network)
        expect_minimal(network, message)


@pytest.mark.parametrize("scheme", MINIMAL)
@settings(max_examples=cases(20))
@given(worlds(3), CHANGES, CHANGES, MESSAGES, st.sampled_from([0.3, 1.0]))
def test_the_next_epoch_repairs_what_was_lost(
    scheme: str, world: World, changes: Steps, later: Steps, message: Message, loss: float
) -> None:
    """Also the withdrawal of a restarted router, which advertises nothing else."""
    network = settled(world.network(RouterOptions(scheme=scheme)), changes)
    network.loss, network.reordering = loss, True
    play(network, later)
    network.restart(network.rng.randrange(world.nodes))
    network.settle()
    network.loss, network.reordering = 0.0, False
    network.new_epoch()
    network.settle()
    expect_minimal(network, message)


def filters_held(network: Network, sources: Collection[int]) -> int:
    """How many filters the forwarding tables hold for these sources."""
    held = 0
    for router in network.routers.values():
        for row in router.rows():
            if row.part is TablePart.FORWARDING:
                own = 1 if row.sources is None else len(set(row.sources) & set(sources))
                held += len(row.predicate) * (own if row.copies else min(own, 1))
    return held


@st.composite
def declared(draw: st.DrawFn, scheme: str) -> tuple[Network, dict[int, int], list[int]]:
    """A network without covering, the number of filters of each receiver, all different, and the senders."""
    world = draw(worlds())
    rng = random.Random(world.seed)
    network = world.network(RouterOptions(scheme=scheme, covering="none"))
    graph = network.graph
    filters = {node: rng.randint(1, 3) for node in sorted(graph) if rng.random() < 0.7}
    for node, count in filters.items():
        own = [one(integer("x", Operator.EQ, 10 * node + k)).filters[0] for k in range(count)]
        network.set_predicate(node, Predicate(tuple(own)))
    network.settle()
    return network, filters, [node for node in sorted(graph) if rng.random() < 0.5]


def psf_memory(graph: Graph, filters: dict[int, int], sources: Collection[int]) -> int:
    """The sum over v in S, x in R of M(pred(x)) distance(v, x): a predicate for each hop."""
    return sum(
        count * (len(path(graph, source, receiver)) - 1)
        for source in sources
        for receiver, count in filters.items()
    )


def ips_memory(graph: Graph, filters: dict[int, int], sources: Collection[int]) -> int:
    """Sources with the same receivers below a child of a node share a predicate."""
    shared: set[tuple[int, int, frozenset[int]]] = set()
    for source in sources:
        below: dict[tuple[int, int], set[int]] = {}
        for receiver in filters:
            for hop in nx.utils.pairwise(path(graph, source, receiver)):
                below.setdefault(hop, set()).add(receiver)
        shared |= {(*hop, frozenset(receivers)) for hop, receivers in below.items()}
    return sum(filters[receiver] for *_, receivers in shared for receiver in receivers)


def pif_memory(graph: Graph, filters: dict[int, int], _sources: Collection[int]) -> int:
    """n r M_p (n - 1) / n, and not the slides' n^2 r M_p: each receiver once at every other router."""
    return sum(filters.values()) * (len(graph) - 1)


def drp_memory(_graph: Graph, filters: dict[int, int], sources: Collection[int]) -> int:
    """s r M_p: each receiver once at every sender, less p0 of the senders that are receivers."""
    return len(sources) * sum(filters.values()) - sum(filters.get(sender, 0) for sender in sources)


_MEMORY = {
    "psf": psf_memory,
    "ips": ips_memory,
    "drp": drp_memory,
    "pif": pif_memory,
    "pif-classes": pif_memory,
}


@pytest.mark.parametrize("scheme", _MEMORY)
@settings(max_examples=cases(30))
@given(data=st.data())
def test_a_scheme_holds_the_filters_of_its_formula(scheme: str, data: st.DataObject) -> None:
    network, filters, senders = data.draw(declared(scheme))
    everyone = list(network.routers)
    for sources in (everyone, everyone if scheme == "pif-classes" else senders):
        assert filters_held(network, sources) == _MEMORY[scheme](network.graph, filters, sources)


@pytest.mark.parametrize("scheme", ["psf", "ips"])
@settings(max_examples=cases(20))
@given(data=st.data())
def test_the_predicates_of_all_nodes_are_kept_beside_the_table(scheme: str, data: st.DataObject) -> None:
    network, filters, _ = data.draw(declared(scheme))
    for node, router in network.routers.items():
        rows = [row for row in router.rows() if row.part is TablePart.RIB]
        others = {receiver: count for receiver, count in filters.items() if receiver != node}
        assert [len(row.predicate) for row in rows] == list(others.values())


@pytest.mark.parametrize("scheme", ["pif", "psf", "ips"])
def test_an_entry_of_many_receivers_is_simplified_as_one_of_few(scheme: str) -> None:
    nodes = 24
    line = graph_of([(node, node + 1, 1) for node in range(nodes - 1)])
    network = Network(line, RouterOptions(scheme=scheme), 1)
    network.new_epoch()
    for node in range(nodes):
        network.set_predicate(node, one(integer("x", Operator.LT, 10 * node)))
    network.settle()
    for router in network.routers.values():
        for row in router.rows():
            assert row.part is not TablePart.FORWARDING or len(row.predicate) == 1


# No order of frames and events loses, doubles or invents a delivery (docs/adr/0032).


@settings(max_examples=cases(450))
@given(SEEDS, st.just("pif") | st.sampled_from(EXACT_SCHEMES))
def test_no_interleaving_loses_doubles_or_invents_a_delivery(seed: int, scheme: str) -> None:
    """Late, repeated and reordered frames of the controller, restarts, failing links, short hop limits."""
    assert attack(seed, scheme) is None


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=cases(60))
@given(SEEDS)
def test_no_order_of_the_frames_of_a_link_loses_a_receiver(scheme: str, seed: int) -> None:
    """Predicates widen and narrow, and routers ask; no later epoch repairs a table.

    With the filter of the paper, on a tree alone.
    """
    rng = random.Random(seed)
    nodes = rng.randint(2, 9)
    graph = random_graph(rng, nodes, rng.randrange(9) if scheme in EXACT_SCHEMES else 0)
    # Their tables have predicates by interface, which RAs widen and URs replace.
    pulls = scheme in ("pif", "pif-classes")
    pulling = replace(OPTIONS, scheme=scheme, ur_reuse=rng.random() < 0.5)
    network = Network(graph, pulling if pulls else RouterOptions(scheme=scheme), seed)
    network.reordering = True
    network.new_epoch()
    few = [random_predicate(rng) for _ in range(3)]
    asks = 0.4 if pulls else 0.0
    play(
        network, [(rng.randrange(nodes), None if rng.random() < asks else rng.choice(few)) for _ in range(14)]
    )
    network.settle()
    assert not pulls or table_errors(network, exact=False) == []
    assert first_wrong_delivery(rng, network, network.graph, (), network.options.hop_limit) is None
