"""Shortest paths in compiled code.

tests/properties/controller/test_trees.py has the plain form.

A network is given by the arrays of `testbed.controller.classes`.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from router.native import I64, Array, Compiler

_COMPILER = Compiler("trees", "testbed.controller.paths")
kernel, callee = _COMPILER.kernel, _COMPILER.callee


@kernel
def shortest_paths(
    first: Array, neighbour: Array, cost: Array, edge: Array, sources: Array, parents: Array
) -> None:
    """Fills `parents` (int32 [sources, n]): a row for each source, in their order; the root stays as it is.

    Dijkstra on cost. Of two parents with paths of equal cost, the path is lighter whose highest edge outside
    the other path is lower: the highest edge that only one of two sets has decides which set, as an integer,
    is greater.
    """
    count = len(first) - 1
    distance = np.empty(count, np.int64)
    hops = np.zeros(count, np.int64)
    last_edge = np.zeros(count, np.int64)
    done = np.empty(count, np.bool_)
    for row in range(len(sources)):
        source, parent = sources[row], parents[row]
        distance[:] = np.iinfo(np.int64).max
        done[:] = False
        distance[source] = 0
        hops[source] = 0
        waiting = [(np.int64(0), np.int64(source))]
        while waiting:
            node = heappop(waiting)[1]
            if done[node]:
                continue
            done[node] = True
            if node != source:
                hops[node] = hops[parent[node]] + 1
            for at in range(first[node], first[node + 1]):
                other = neighbour[at]
                candidate = distance[node] + cost[at]
                if candidate < distance[other]:
                    distance[other] = candidate
                    parent[other] = node
                    last_edge[other] = edge[at]
                    heappush(waiting, (candidate, other))
                elif (
                    candidate == distance[other]
                    and other != source
                    and _is_lighter(
                        parent, hops, last_edge, node, edge[at], np.int64(parent[other]), last_edge[other]
                    )
                ):
                    parent[other] = node
                    last_edge[other] = edge[at]


@callee
def _is_lighter(
    parent: Array, hops: Array, last_edge: Array, a: I64, edge_a: I64, b: I64, edge_b: I64
) -> I64:
    """Whether the path to `a` with `edge_a` is lighter than that to `b` with `edge_b`, of equal cost."""
    while a != b:
        deeper_a, deeper_b = hops[a] >= hops[b], hops[b] >= hops[a]
        if deeper_a:
            edge_a = max(edge_a, last_edge[a])
            a = parent[a]
        if deeper_b:
            edge_b = max(edge_b, last_edge[b])
            b = parent[b]
    return edge_a < edge_b
