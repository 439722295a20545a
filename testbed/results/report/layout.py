"""Positions of nodes in figures: their coordinates, or a layout by numbers of hops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from testbed.controller.trees import hops_on_trees, spt_trees
from topos import Topology

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
    return layout(topology)


def apart(places: Mapping[int, Point], mark: float, width: float, height: float) -> dict[int, Point]:
    """Returns positions for a drawing of a width and a height in which no node's mark covers another's.

    Two nodes that would be nearer than a mark move away from each other, by half of what is missing each,
    until no pair is left or `_ITERATIONS` are over. Nodes at one place part in directions of their own.

    Args:
        mark: diameter of a mark, in the unit of `width` and `height`.

    Returns:
        Positions in that unit; the network fills the drawing.
    """
    nodes = sorted(places)
    points = np.array([places[node] for node in nodes], dtype=float)
    extent = np.ptp(points, axis=0)
    factors = [size / span for size, span in zip((width, height), extent, strict=True) if span > 0]
    points = (points - points.min(axis=0)) * (min(factors) if factors else 1.0)
    for _ in range(_ITERATIONS):
        pairs = _near(points, mark)
        if not len(pairs):
            break
        between = points[pairs[:, 1]] - points[pairs[:, 0]]
        far = np.linalg.norm(between, axis=1)
        # The golden angle: no two of a crowd at one place leave in one direction.
        angles = 2.399963 * (pairs[:, 0] + pairs[:, 1])
        own = np.column_stack((np.cos(angles), np.sin(angles)))
        direction = np.where(far[:, None] > 1e-9, between / np.maximum(far, 1e-9)[:, None], own)
        # A little more than is missing, or the last steps would be endless.
        push = direction * ((mark - far) / 2 + 0.02 * mark)[:, None]
        np.add.at(points, pairs[:, 0], -push)
        np.add.at(points, pairs[:, 1], push)
    return {node: (float(x), float(y)) for node, (x, y) in zip(nodes, points, strict=True)}


def _near(points: NDArray[np.float64], distance: float) -> NDArray[np.int64]:
    """Returns the pairs of points nearer than a distance, each once."""
    # Along the longer side, so that few points are at equal places.
    side = points[:, np.ptp(points, axis=0).argmax()]
    order = np.argsort(side)
    across = side[order]
    # Of each point, those behind it that are near enough along that side.
    counts = np.searchsorted(across, across + distance) - np.arange(len(order)) - 1
    left = np.repeat(np.arange(len(order)), counts)
    right = left + 1 + np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts)
    pairs = order[np.column_stack((left, right))]
    near: NDArray[np.int64] = pairs[
        np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1) < distance
    ]
    return near


def layout(topology: Topology) -> dict[int, Point]:
    """Returns positions whose distances approximate numbers of hops.

    Classical scaling of the hop counts, refined by stress majorization with unit weights (Gansner, Koren and
    North, "Graph drawing by stress majorization", 2004). The same graph gives the same picture.
    """
    links = tuple(replace(link, cost=1) for link in topology.links)
    # Of the layer `spt`, whose trees then have the fewest hops.
    hops = hops_on_trees(replace(topology, links=links), spt_trees, frozenset(), frozenset()).astype(float)
    points = _classical_scaling(hops)
    for _ in range(_ITERATIONS):
        apart = np.linalg.norm(points[:, None] - points[None, :], axis=2)
        ratio = np.divide(hops, apart, out=np.zeros_like(hops), where=apart > 0)
        moved = (ratio.sum(axis=1)[:, None] * points - ratio @ points) / len(hops)
        done = float(np.abs(moved - points).max()) < 1e-4
        points = moved
        if done:
            break
    return {node: (float(x), float(y)) for node, (x, y) in enumerate(points)}


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
