"""Random graphs with power-law degrees, and the mean distance between their nodes.

A graph is drawn as in the configuration model: each node has as many ends of links as its degree, and the
ends of all nodes are joined at random. Loops and double links are left out. The degrees are quantiles of
their distribution: drawn degrees would move the mean distance by a tenth with the few greatest of them. A
graph and the distances from one node are arrays of O(n) numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_LEAST_DEGREE = 2
#: Graphs of a seed, and nodes of each from which distances are measured.
_GRAPHS, _SOURCES = 8, 20


def power_law_graph(nodes: int, exponent: float, random: np.random.Generator) -> tuple[Ints, Ints]:
    """Returns a random graph: the neighbours of node v are ends[start[v]:start[v + 1]].

    Args:
        exponent: the share of nodes of a degree k, from 2 to nodes - 1, is in proportion to k^-exponent.
    """
    cumulative = np.cumsum(np.arange(_LEAST_DEGREE, nodes, dtype=float) ** -exponent)
    quantiles = (np.arange(nodes) + 0.5) / nodes
    degrees = _LEAST_DEGREE + np.searchsorted(cumulative / cumulative[-1], quantiles)
    degrees[0] += degrees.sum() % 2
    joined = random.permutation(np.repeat(np.arange(nodes), degrees)).reshape(-1, 2)
    joined = joined[joined[:, 0] != joined[:, 1]]
    # Each link once from either end.
    links = np.unique(np.concatenate((joined @ [nodes, 1], joined @ [1, nodes])))
    return np.searchsorted(links, nodes * np.arange(nodes + 1)), links % nodes


def distances(start: Ints, ends: Ints, source: int) -> Ints:
    """Returns the hops from a node to each node of a graph; -1: no path leads there."""
    found = np.full(len(start) - 1, -1)
    found[source] = 0
    reached, hops = np.array([source]), 0
    while len(reached):
        hops += 1
        counts = start[reached + 1] - start[reached]
        offsets = np.repeat(start[reached] - np.cumsum(counts) + counts, counts)
        neighbours = ends[offsets + np.arange(len(offsets))]
        found[neighbours[found[neighbours] < 0]] = hops
        reached = np.flatnonzero(found == hops)
    return found


def mean_distance(nodes: int, exponent: float, seed: int) -> float:
    """Returns the mean hops between two nodes of the largest component, over several graphs and sources.

    The node of the greatest degree is in the largest component.
    """
    random = np.random.default_rng((seed, nodes, round(100 * exponent)))
    means = []
    for _ in range(_GRAPHS):
        start, ends = power_law_graph(nodes, exponent, random)
        component = np.flatnonzero(distances(start, ends, int(np.diff(start).argmax())) >= 0)
        sources = random.choice(component, min(_SOURCES, len(component)), replace=False).tolist()
        hops = sum(distances(start, ends, source)[component].sum() for source in sources)
        means.append(hops / len(sources) / (len(component) - 1))
    return float(np.mean(means))
