"""Networks with a router that lies about its subtree: what its word changes for whom."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from itertools import permutations

import networkx as nx

from router.predicates import EVERYTHING, NOTHING, Message, Predicate
from router.predicates.parser import parse_predicate
from router.protocol.events import Action, Event
from router.protocol.options import RouterOptions
from router.wire.frames import FrameType
from tests.support.protocol_network import Graph, Network, path, random_graph

NODES = 12


class LyingNetwork(Network):
    """A network in which the URs of one router say something else.

    Attributes:
        liar: the node. None: nobody lies.
        lie: what its URs say.
    """

    liar: int | None = None
    lie: Predicate = NOTHING

    def handle(self, node: int, event: Event) -> list[Action]:
        actions = super().handle(node, event)
        if node == self.liar:
            for (sender, _), waiting in self._queues.items():
                for place, frame in enumerate(waiting):
                    if sender == node and frame.type is FrameType.UR:
                        waiting[place] = replace(frame, body=self.lie)
        return actions


@dataclass(frozen=True)
class Outcome:
    """The fate of one message from each node to all others.

    Attributes:
        delivered: (source, receiver) of each delivery.
        crossed: MSG frames by directed link.
    """

    delivered: frozenset[tuple[int, int]]
    crossed: Counter[tuple[int, int]]


def outcome(graph: Graph, seed: int, liar: int | None, lie: Predicate = NOTHING) -> Outcome:
    """Every node asks for messages with its number; all issue SRs; each sends a message to each other."""
    network = LyingNetwork(graph, RouterOptions(), seed)
    network.liar, network.lie = liar, lie
    network.new_epoch()
    for node in graph:
        network.set_predicate(node, parse_predicate(f"to = {node}"))
    network.settle()
    for node in graph:
        network.request_update(node)
        network.settle()
    network.frames.clear()
    network.delivered.clear()
    delivered: set[tuple[int, int]] = set()
    for source in graph:
        for receiver in graph:
            if receiver != source:
                known = set(network.delivered)
                network.send(source, Message({"to": receiver}))
                network.settle()
                (message,) = network.delivered.keys() - known
                if network.delivered[message][receiver]:
                    delivered.add((source, receiver))
    crossed = Counter(
        {(u, v): count for (u, v, kind), count in network.frames.items() if kind is FrameType.MSG}
    )
    return Outcome(frozenset(delivered), crossed)


def through(graph: Graph, node: int) -> frozenset[tuple[int, int]]:
    """The (source, receiver) whose messages pass a node, which could drop them."""
    return frozenset(pair for pair in permutations(graph, 2) if node in path(graph, *pair)[1:])


@dataclass
class Measured:
    """Sums over networks and liars.

    Attributes:
        expected: deliveries without a lie.
        missed: those that a narrow lie prevented; `droppable`: those that the liar could drop.
        beyond: of `missed`, those that the liar could not drop.
        further: MSG frames more, after a wide lie, into the liar; `elsewhere`: on all other links.
    """

    expected: int = 0
    missed: int = 0
    droppable: int = 0
    beyond: int = 0
    further: int = 0
    elsewhere: int = 0


def measure(seeds: range) -> Measured:
    """One liar in each of some random networks of `NODES` routers and 6 links more than a tree."""
    sums = Measured()
    for seed in seeds:
        graph = random_graph(random.Random(seed), NODES, 6)
        # The node on most of the shortest paths has most to lie about.
        centrality = nx.betweenness_centrality(graph)
        liar = max(sorted(graph), key=lambda node: centrality[node])
        honest = outcome(graph, seed, None)
        narrow = outcome(graph, seed, liar, NOTHING)
        wide = outcome(graph, seed, liar, EVERYTHING)
        missed = honest.delivered - narrow.delivered
        droppable = through(graph, liar)
        sums.expected += len(honest.delivered)
        sums.missed += len(missed)
        sums.droppable += len(droppable)
        sums.beyond += len(missed - droppable)
        assert wide.delivered == honest.delivered
        for link in wide.crossed.keys() | honest.crossed.keys():
            more = wide.crossed[link] - honest.crossed[link]
            if link[1] == liar:
                sums.further += more
            else:
                sums.elsewhere += more
    return sums
