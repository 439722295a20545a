"""Random networks in memory, their predicates, messages and steps; the checks of deliveries and tables."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple, TypeAlias

from hypothesis import strategies as st

from router.predicates import EVERYTHING, NOTHING, Message, Operator, Predicate, matches
from router.protocol.options import SCHEMES, RouterOptions
from router.wire.frames import FrameType
from tests.support.algebra import disjoin
from tests.support.protocol_network import Network, integer, one, random_graph
from tests.support.router_tables import about

CONSTRAINTS = st.builds(
    integer,
    st.sampled_from("ab"),
    st.sampled_from([Operator.EQ, Operator.LT, Operator.GT, Operator.NE]),
    st.integers(0, 3),
)
FILTERS = st.lists(CONSTRAINTS, min_size=1, max_size=2).map(lambda chosen: one(*chosen))
PREDICATES = st.one_of(st.just(NOTHING), st.just(EVERYTHING), FILTERS, st.builds(disjoin, FILTERS, FILTERS))
MESSAGES = st.fixed_dictionaries({"a": st.integers(0, 3)}, optional={"b": st.integers(0, 3)}).map(Message)
MESSAGE_LISTS = st.lists(MESSAGES, min_size=1, max_size=3)
SEEDS = st.integers(0, 2**32)
#: What routers do, one after the other: set a predicate, or ask (None).
Steps: TypeAlias = Sequence[tuple[int, Predicate | None]]
STEPS = st.lists(st.tuples(st.integers(0, 8), st.none() | PREDICATES), max_size=14)
CHANGES = st.lists(st.tuples(st.integers(0, 8), PREDICATES), max_size=12)
#: Two messages of this list differ for any two predicates of `PREDICATES` that do not match the same.
PROBES = [
    Message({name: value for name, value in (("a", a), ("b", b)) if value is not None})
    for a, b in product((None, *range(-1, 5)), repeat=2)
]
OPTIONS = RouterOptions(sr_timeout_s=1.0, ur_freshness_s=3.0)


class World(NamedTuple):
    """A random graph, and the seed of what happens on it.

    Attributes:
        extra: so many links more than a tree has, or fewer.
    """

    seed: int
    nodes: int
    extra: int

    def network(
        self, options: RouterOptions | None = None, matcher: str = "naive", layer: str = "spt"
    ) -> Network:
        """A network in its first epoch."""
        graph = random_graph(random.Random(self.seed), self.nodes, self.extra)
        network = Network(graph, options or RouterOptions(), self.seed, matcher)
        network.layer = layer
        network.new_epoch()
        return network


def worlds(least: int = 2, most: int = 8, extra: int = 8) -> st.SearchStrategy[World]:
    """Worlds of so many nodes, and of links up to `extra` more than a tree has."""
    return st.builds(World, SEEDS, st.integers(least, most), st.integers(0, extra))


def play(network: Network, steps: Steps) -> None:
    """Takes steps, with frames that move in between."""
    nodes = len(network.routers)
    for node, predicate in steps:
        if predicate is None:
            network.request_update(node % nodes)
        else:
            network.set_predicate(node % nodes, predicate)
        network.some_steps()


def settled(network: Network, steps: Steps) -> Network:
    """The network after steps, when nothing is under way."""
    play(network, steps)
    network.settle()
    return network


def ask_once(network: Network) -> None:
    """When no answer is fresh, each router asks, in any order; then the network settles."""
    network.now += network.options.ur_freshness_s + 0.1
    for node in network.rng.sample(sorted(network.routers), len(network.routers)):
        network.request_update(node)
        network.some_steps()
    network.settle()


def expect_exact_delivery(network: Network, messages: Sequence[Message]) -> None:
    """Every node sends every message; each arrives once wherever p0 selects it, and nowhere else.

    A router sends a message at most once over each of its interfaces, on the tree or not; of copies,
    at most once for each receiver.
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
            copies = len(expected) if SCHEMES[network.options.scheme].message_frames == "copies" else 1
            assert max(carried, default=0) <= copies


def selected(predicate: Predicate) -> list[bool]:
    return [matches(predicate, message) for message in PROBES]


def behind(network: Network, node: int, neighbour: int, source: int | None = None) -> list[int]:
    """The nodes behind the link from `node` to `neighbour`, from the tables of the controller alone.

    Args:
        source: those on the tree of this node; None: on the tree of `node`.
    """
    interface = next(i for i, other in network.routers[node].interfaces().items() if other == neighbour)
    found = [
        root for root in network.routers if root != node and network.parent_interface(node, root) == interface
    ]
    if source is None:
        return found
    table = network.tables[node]
    assert table.subtrees is not None
    below = table.subtrees[table.class_of[source] - 1]
    return [root for root in found if below[table.class_of[root] - 1]]


def table_errors(network: Network, exact: bool) -> list[str]:
    """Returns the places where a table lacks a node's predicate, or (`exact`) has more than all
    predicates.

    A table that keeps classes of nodes apart is compared for each source of messages.
    """
    wrong = []
    for node, router in network.routers.items():
        sources: list[int | None] = [None]
        if network.options.scheme == "pif-classes":
            class_of = network.tables[node].class_of
            sources = [each for each in network.routers if each < class_of.size and class_of[each]]
        for source in sources:
            table = about(router.rows(), source)
            for interface, neighbour in router.interfaces().items():
                has = selected(table.get(interface, NOTHING))
                nodes = behind(network, node, neighbour, source)
                wanted = [selected(network.predicates.get(other, NOTHING)) for other in nodes]
                wants = [any(column) for column in zip(*wanted, strict=True)] or [False] * len(PROBES)
                for message, has_it, wants_it in zip(PROBES, has, wants, strict=True):
                    if wants_it and not has_it:
                        wrong.append(f"{node}, of {source}: behind {neighbour} {dict(message)} is missing")
                    elif exact and has_it and not wants_it:
                        wrong.append(f"{node}, of {source}: behind {neighbour} {dict(message)} is too much")
    return wrong
