"""Random graphs with power-law degrees, and the mean distance between their nodes.

A graph is drawn as in the configuration model: each node has as many ends of links as its degree, and the
ends of all nodes are joined at random. Loops and double links are left out. The degrees are quantiles of
their distribution: drawn degrees would move the mean distance by a tenth with the few greatest of them.
`topos.generators.power_law`, whose graphs are networks to emulate, bounds degrees by 2 sqrt(n), and a bound
on degrees lengthens the paths whose growth is measured.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_LEAST_DEGREE = 2
#: Graphs of a seed, and nodes of each from which distances are measured: a bit of an integer each.
_GRAPHS, _SOURCES = 4, 64


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


def mean_hops(start: Ints, ends: Ints, sources: Ints) -> float:
    """Returns the mean hops from some nodes, at most 64, to all other nodes to which paths lead.

    A node has a bit for each source that has reached it, so memory is O(n) and a hop of all sources is one
    pass over the links.
    """
    reached = np.zeros(len(start) - 1, np.uint64)
    reached[sources] = np.uint64(1) << np.arange(len(sources), dtype=np.uint64)
    linked = np.flatnonzero(np.diff(start))
    hops = total = 0
    while True:
        new = np.bitwise_or.reduceat(reached[ends], start[linked]) & ~reached[linked]
        if not new.any():
            return total / (int(np.bitwise_count(reached).sum()) - len(sources))
        hops += 1
        total += hops * int(np.bitwise_count(new).sum())
        reached[linked] |= new


def mean_distance(nodes: int, exponent: float, seed: int) -> float:
    """Returns the mean of `mean_hops` over several graphs, from nodes drawn at random."""
    random = np.random.default_rng((seed, nodes, round(100 * exponent)))
    graphs = (power_law_graph(nodes, exponent, random) for _ in range(_GRAPHS))
    return float(np.mean([mean_hops(*graph, random.permutation(nodes)[:_SOURCES]) for graph in graphs]))
