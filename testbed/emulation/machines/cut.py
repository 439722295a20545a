"""The share of each machine: as many nodes as its capacity asks for, and few links to other machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import networkx as nx

from testbed.emulation.network.tunnels import Tunnel
from topos import Topology

#: Nodes from which a bisection starts; a single one cuts up to 20 % more links.
_STARTS = 8


def shares(topology: Topology, capacities: Sequence[float]) -> list[tuple[int, ...]]:
    """Cuts a topology into the nodes of each machine, ascending.

    Args:
        capacities: of the machines, above 0, at most as many as nodes; machines have nodes in proportion
            (largest remainder), at least 1.
    """
    exact = [len(topology.nodes) * capacity / sum(capacities) for capacity in capacities]
    sizes = [int(size) for size in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda number: sizes[number] - exact[number])
    for number in by_remainder[: len(topology.nodes) - sum(sizes)]:
        sizes[number] += 1
    while 0 in sizes:
        sizes[sizes.index(max(sizes))] -= 1
        sizes[sizes.index(0)] += 1
    graph = nx.Graph((link.u, link.v) for link in topology.links)
    graph.add_nodes_from(node.id for node in topology.nodes)
    return [tuple(sorted(share)) for share in _cut(graph, sizes)]


def tunnels(topology: Topology, places: Mapping[int, str], tag: str) -> dict[str, dict[int, Tunnel]]:
    """Returns the ends of the links between machines, by IP address of the machine and index of the link.

    Args:
        places: node -> address.
        tag: of the run (`testbed.support.run_state`), which tells its tunnels apart.
    """
    found: dict[str, dict[int, Tunnel]] = {address: {} for address in places.values()}
    for link in topology.links:
        u, v = places[link.u], places[link.v]
        if u != v:
            vni = ((int(tag, 16) << 8) + link.index) % (1 << 24)
            found[u][link.index], found[v][link.index] = Tunnel(u, v, vni), Tunnel(v, u, vni)
    return found


def _cut(graph: nx.Graph, sizes: Sequence[int]) -> list[Sequence[int]]:
    """Halves the machines, and their nodes after Kernighan and Lin, until each has its own."""
    if len(sizes) == 1:
        return [list(graph)]
    nodes, half = sorted(graph), len(sizes) // 2
    size, cuts = sum(sizes[:half]), []
    for first in nodes[:: -(-len(nodes) // _STARTS)]:
        order: dict[int, None] = {}
        for start in (first, *nodes):
            if start not in order:
                edges = nx.bfs_edges(graph, start, sort_neighbors=sorted)
                order |= dict.fromkeys([start, *(far for _, far in edges)])
        begin = list(order)[:size], list(order)[size:]
        # The parts keep their sizes, but not their order.
        parts = nx.community.kernighan_lin_bisection(graph, begin)
        cuts.append(sorted(parts, key=lambda part: len(part) != size))
    best = min(cuts, key=lambda parts: nx.cut_size(graph, *parts))
    graphs = [graph.subgraph(sorted(part)).copy() for part in best]
    return [*_cut(graphs[0], sizes[:half]), *_cut(graphs[1], sizes[half:])]
