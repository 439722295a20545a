"""A router's word about its subtree: what a lie changes is what the liar could do without one."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import permutations

import networkx as nx
import pytest

from router.predicates import EVERYTHING, NOTHING, Message, Predicate
from router.predicates.parser import parse_predicate
from router.protocol.events import Action, Event
from router.protocol.options import RouterOptions
from router.wire.frames import FrameType
from tests.support.protocol_network import Graph, Network, path, random_graph


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


def outcome(
    graph: Graph, seed: int, liar: int | None = None, lie: Predicate = NOTHING
) -> tuple[set[tuple[int, int]], Counter[int]]:
    """Every node asks for messages with its number; all issue SRs; each sends a message to each other.

    Returns (source, receiver) of each delivery, and the MSG frames that each router has received.
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
    network.frames.clear()
    delivered = set()
    for source, receiver in permutations(graph, 2):
        message = network.send(source, Message({"to": receiver}))
        network.settle()
        if network.delivered[message][receiver]:
            delivered.add((source, receiver))
    received: Counter[int] = Counter()
    for (_, receiver, kind), count in network.frames.items():
        received[receiver] += count * (kind is FrameType.MSG)
    return delivered, received


@pytest.mark.parametrize("seed", range(3))
def test_a_lie_cuts_off_nobody_whom_the_liar_could_not_drop(seed: int) -> None:
    graph = random_graph(random.Random(seed), 12, 6)
    # The node on most of the shortest paths has most to lie about.
    centrality = nx.betweenness_centrality(graph)
    liar = max(sorted(graph), key=lambda node: centrality[node])
    every = set(permutations(graph, 2))
    delivered, received = outcome(graph, seed)
    assert delivered == every
    narrow, _ = outcome(graph, seed, liar, NOTHING)
    droppable = {pair for pair in every if liar in path(graph, *pair)[1:]}
    assert every - narrow == droppable != set()
    wide, further = outcome(graph, seed, liar, EVERYTHING)
    assert wide == every
    assert further[liar] > received[liar]
