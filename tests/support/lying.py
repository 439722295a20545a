"""Networks with a router that lies about its subtree: what its word changes for whom."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import permutations

import networkx as nx

from router.predicates import EVERYTHING, NOTHING, Message, Predicate
from router.predicates.parser import parse_predicate
from router.protocol.events import Action, Event
from router.protocol.options import RouterOptions
from router.wire.frames import FrameType
from tests.support.protocol_network import Graph, Network, path, random_graph

NODES = 12
#: Source and receiver of a delivery.
Pair = tuple[int, int]


class LyingNetwork(Network):
    """A network in which the URs of one router (None: of no router) say something else."""

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


def outcome(graph: Graph, seed: int, liar: int | None, lie: Predicate) -> tuple[set[Pair], Counter[Pair]]:
    """Every node asks for messages with its number; all issue SRs; each sends a message to each other.

    Returns the deliveries, and the MSG frames by directed link.
    """
    network = LyingNetwork(graph, RouterOptions(), seed)
    network.liar, network.lie = liar, lie
    network.new_epoch()
    for node in graph:
        network.set_predicate(node, parse_predicate(f"to = {node}"))
    network.settle()
    for node in graph:
        network.request_update(node)
        network.settle()
    sent = {pair: network.send(pair[0], Message({"to": pair[1]})) for pair in permutations(graph, 2)}
    network.settle()
    crossed = Counter(
        {(u, v): count for (u, v, kind), count in network.frames.items() if kind is FrameType.MSG}
    )
    return {pair for pair, message in sent.items() if network.delivered[message][pair[1]]}, crossed


def measure(seeds: range) -> Counter[str]:
    """One liar in each of some random networks of `NODES` routers and 6 links more than a tree.

    Returns sums over the networks: the deliveries without a lie (`expected`); of these, the deliveries that
    the liar could drop, since it forwards the messages (`droppable`); those that a narrow lie prevented
    (`missed`), and those of them that the liar could not drop (`beyond`); and the MSG frames into the liar
    that a wide lie adds (`further`).
    """
    sums: Counter[str] = Counter()
    for seed in seeds:
        graph = random_graph(random.Random(seed), NODES, 6)
        # The node on most of the shortest paths has most to lie about.
        centrality = nx.betweenness_centrality(graph)
        liar = max(sorted(graph), key=lambda node: centrality[node])
        honest, crossed = outcome(graph, seed, None, NOTHING)
        narrow, _ = outcome(graph, seed, liar, NOTHING)
        wide, more = outcome(graph, seed, liar, EVERYTHING)
        assert wide == honest
        droppable = {pair for pair in permutations(graph, 2) if liar in path(graph, *pair)[1:]}
        sums["expected"] += len(honest)
        sums["droppable"] += len(droppable)
        sums["missed"] += len(honest - narrow)
        sums["beyond"] += len(honest - narrow - droppable)
        sums["further"] += sum(more[link] - crossed[link] for link in more if link[1] == liar)
    return sums
