"""Shortest paths and classes of subtrees in plain Python: the oracle of `testbed.controller.paths`.

The functions have the arguments and results of those of that module.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

_NONE = -1
#: Per node: (neighbour, cost, tie-breaking bit) of each usable link.
_Adjacency = list[list[tuple[int, int, int]]]


def shortest_paths(
    first: _Array, neighbour: _Array, cost: _Array, edge: _Array, sources: _Array, parents: _Array
) -> None:
    """Fills `parents` (int32 [n, n], by source and node) for each of `sources`; elsewhere it stays."""
    bits = [1 << number for number in edge.tolist()]
    entries = list(zip(neighbour.tolist(), cost.tolist(), bits, strict=True))
    starts = first.tolist()
    adjacency = [entries[start:end] for start, end in pairwise(starts)]
    unreached = 1 + int(cost.sum())
    for source in sources.tolist():
        parents[source] = _parents_from(source, adjacency, unreached)


def _parents_from(source: int, adjacency: _Adjacency, unreached: int) -> list[int]:
    """Dijkstra on cost alone, choosing between parents of equal cost by the edge set of the path.

    The result is the tree of the big-integer weights. Costs are positive, so every parent that ties for a
    node leaves the heap before the node does, with its own path, and hence its edge set, final; the lightest
    of the tied parents is then the node's parent under the full weight. The m-bit sets are compared
    only on a tie of costs, and never added or put in the heap.

    Args:
        unreached: a number above the cost of every path.
    """
    count = len(adjacency)
    distance = [unreached] * count
    parents = [_NONE] * count
    last_edge = [0] * count  # the bit of the edge to the parent
    edges = [0] * count  # the edge set of the path to the source; final once the node has left the heap
    distance[source] = 0
    heap = [(0, source)]
    while heap:
        cost, node = heappop(heap)
        if cost != distance[node]:
            continue  # a shorter path was found after this one was queued
        if node != source:
            edges[node] = edges[parents[node]] | last_edge[node]
        path = edges[node]
        for neighbour, step, bit in adjacency[node]:
            candidate = cost + step
            known = distance[neighbour]
            if candidate < known:
                distance[neighbour] = candidate
                parents[neighbour] = node
                last_edge[neighbour] = bit
                heappush(heap, (candidate, neighbour))
            elif candidate == known and path | bit < edges[parents[neighbour]] | last_edge[neighbour]:
                parents[neighbour] = node
                last_edge[neighbour] = bit
    return parents


def subtree_classes(
    first: _Array, neighbour: _Array, sources: _Array, parents: _Array, most: int, class_of: _Array
) -> tuple[_Array, _Array, _Array, _Array, _Array, int]:
    """Numbers the pairs (parent, set of nodes in the subtree) of each node, in order of their first source.

    A class is known by its parent and the classes of its children, as in compiled code.
    """
    count = len(first) - 1
    adjacency = [neighbour[first[node] : first[node + 1]].tolist() for node in range(count)]
    known: list[dict[tuple[int, tuple[tuple[int, int], ...]], int]] = [{} for _ in range(count)]
    classes: list[tuple[int, int]] = []
    starts = [0]
    children: list[tuple[int, int]] = []
    for source in sources.tolist():
        parent = parents[source].tolist()
        order = [source]
        for node in order:  # `order` grows in the loop
            order += [child for child in adjacency[node] if parent[child] == node]
        current: dict[int, int] = {}
        for node in reversed(order):
            below = tuple((child, current[child]) for child in adjacency[node] if parent[child] == node)
            key = parent[node], below
            number = known[node].get(key)
            if number is None:
                number = known[node][key] = len(known[node]) + 1
                classes.append((node, parent[node]))
                children += below
                starts.append(len(children))
                if number > most:
                    return (*_arrays(classes, starts, children), node)
            current[node] = number
            class_of[node, source] = number
    return (*_arrays(classes, starts, children), _NONE)


def _arrays(
    classes: list[tuple[int, int]], starts: list[int], children: list[tuple[int, int]]
) -> tuple[_Array, _Array, _Array, _Array, _Array]:
    pairs = np.array(classes, np.int32).reshape(-1, 2)
    below = np.array(children, np.int32).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1], np.array(starts, np.int64), below[:, 0], below[:, 1].astype(np.uint16)


def hops_from_sources(sources: _Array, parents: _Array, hops: _Array) -> None:
    """Fills `hops` (int32 [n, n], by source and node): hops from the source on its tree; -1: not on it."""
    for source in sources.tolist():
        parent = parents[source].tolist()
        found = [_NONE] * len(parent)
        found[source] = 0
        for node in range(len(parent)):
            trail, at = [], node
            while found[at] == _NONE and parent[at] != _NONE:
                trail.append(at)
                at = parent[at]
            if found[at] != _NONE:
                for distance, each in enumerate(reversed(trail), found[at] + 1):
                    found[each] = distance
        hops[source] = found
