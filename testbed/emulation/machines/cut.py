"""The nodes of each machine: as many as its capacity asks for, and few links between machines."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import networkx as nx

from testbed.support.errors import InputError
from topos import Link, Topology

#: Nodes from which a bisection starts; four times as many cut some 3 % fewer links.
_STARTS = 8


def shares(topology: Topology, capacities: Sequence[float]) -> list[tuple[int, ...]]:
    """Cuts a topology into the nodes of each machine, ascending.

    The cut has at most as many links as that of the nodes in breadth-first order from node 0.

    Args:
        capacities: of the machines, above 0; they have nodes in proportion (largest remainder), at least 1.

    Raises:
        InputError: there are more machines than nodes.
    """
    sizes = _sizes(len(topology.nodes), capacities)
    graph = nx.Graph((link.u, link.v) for link in topology.links)
    graph.add_nodes_from(node.id for node in topology.nodes)
    found = [_bisected(graph, sizes), _split(_breadth_first(graph, 0), sizes)]
    return [tuple(sorted(share)) for share in min(found, key=lambda cut: len(cut_links(topology, cut)))]


def cut_links(topology: Topology, shares: Sequence[Sequence[int]]) -> list[Link]:
    """Returns the links between machines."""
    machine = {node: number for number, share in enumerate(shares) for node in share}
    return [link for link in topology.links if machine[link.u] != machine[link.v]]


def _sizes(nodes: int, capacities: Sequence[float]) -> list[int]:
    if nodes < len(capacities):
        raise InputError(f"{nodes} nodes do not suffice for {len(capacities)} machines")
    exact = [nodes * capacity / sum(capacities) for capacity in capacities]
    sizes = [int(size) for size in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda number: sizes[number] - exact[number])
    for number in by_remainder[: nodes - sum(sizes)]:
        sizes[number] += 1
    while 0 in sizes:
        sizes[sizes.index(max(sizes))] -= 1
        sizes[sizes.index(0)] += 1
    return sizes


def _breadth_first(graph: nx.Graph, start: int) -> list[int]:
    components = nx.connected_components(graph)
    starts = [start, *sorted(min(each) for each in components if start not in each)]
    edges = [(root, nx.bfs_edges(graph, root, sort_neighbors=sorted)) for root in starts]
    return [node for root, found in edges for node in (root, *(far for _, far in found))]


def _split(nodes: Sequence[int], sizes: Sequence[int]) -> list[Sequence[int]]:
    return [nodes[begin:end] for begin, end in pairwise(accumulate(sizes, initial=0))]


def _bisected(graph: nx.Graph, sizes: Sequence[int]) -> list[Sequence[int]]:
    """Halves the machines, and their nodes after Kernighan and Lin, until each has its own."""
    nodes = sorted(graph)
    if len(sizes) == 1:
        return [nodes]
    halves = _split(sizes, [len(sizes) // 2, -(-len(sizes) // 2)])
    cuts = []
    for start in nodes[:: -(-len(nodes) // _STARTS)]:
        parts = _split(_breadth_first(graph, start), [*map(sum, halves)])
        # The parts keep their sizes, but not their order.
        found = sorted(nx.community.kernighan_lin_bisection(graph, parts), key=len)
        cuts.append(found[:: 1 if len(parts[0]) <= len(parts[1]) else -1])
    best = min(cuts, key=lambda parts: nx.cut_size(graph, *parts))
    graphs = [graph.subgraph(sorted(part)).copy() for part in best]
    return [share for part in map(_bisected, graphs, halves) for share in part]
