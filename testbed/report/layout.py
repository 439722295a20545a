"""Positions of nodes in figures: their coordinates, or a layout by numbers of hops."""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from topos.model import Topology

_ITERATIONS = 300

Point = tuple[float, float]


def positions(topology: Topology) -> dict[int, Point]:
    """Returns the position of each node: its x and y if every node has them, otherwise a layout of the
    links."""
    places = {
        node.id: (node.x, node.y) for node in topology.nodes if node.x is not None and node.y is not None
    }
    if len(places) == len(topology.nodes):
        return places
    return layout((node.id for node in topology.nodes), ((link.u, link.v) for link in topology.links))


def layout(nodes: Iterable[int], links: Iterable[tuple[int, int]]) -> dict[int, Point]:
    """Returns positions whose distances approximate numbers of hops.

    Classical scaling of the hop counts, refined by stress majorization with unit weights (Gansner, Koren and
    North, "Graph drawing by stress majorization", 2004). The same graph gives the same picture.
    """
    names = sorted(nodes)
    graph = nx.Graph()
    graph.add_nodes_from(names)
    graph.add_edges_from(links)
    hops = _hop_counts(graph, names)
    points = _classical_scaling(hops)
    for _ in range(_ITERATIONS):
        apart = np.linalg.norm(points[:, None] - points[None, :], axis=2)
        ratio = np.divide(hops, apart, out=np.zeros_like(hops), where=apart > 0)
        moved = (ratio.sum(axis=1)[:, None] * points - ratio @ points) / len(names)
        done = float(np.abs(moved - points).max()) < 1e-4
        points = moved
        if done:
            break
    return {name: (float(x), float(y)) for name, (x, y) in zip(names, points, strict=True)}


def _hop_counts(graph: nx.Graph, names: list[int]) -> NDArray[np.float64]:
    """Returns the hops between every two nodes; without a path, the number of nodes."""
    number = {name: position for position, name in enumerate(names)}
    hops = np.full((len(names), len(names)), float(len(names)))
    for source, lengths in nx.all_pairs_shortest_path_length(graph):
        for target, length in lengths.items():
            hops[number[source], number[target]] = length
    return hops


def _classical_scaling(hops: NDArray[np.float64]) -> NDArray[np.float64]:
    count = len(hops)
    centring = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-centring @ hops**2 @ centring / 2)
    points: NDArray[np.float64] = np.zeros((count, 2))
    kept = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0))
    points[:, : kept.shape[1]] = kept
    # Nodes with equal hop counts to all others, such as the leaves of a star, would coincide.
    angles = 2 * np.pi * np.arange(count) / count
    return points + 0.05 * np.column_stack((np.cos(angles), np.sin(angles)))
