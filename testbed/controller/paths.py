"""Shortest paths and classes of subtrees in compiled code.

tests/properties/controller/test_trees.py has the plain form of both.

A network is given by the arrays of `testbed.controller.classes`.
"""

from __future__ import annotations

import numpy as np

from router.native.compiler import I64, Array, Compiler, Tuple

_COMPILER = Compiler("trees", "testbed.controller.paths")
kernel, callee = _COMPILER.kernel, _COMPILER.callee

_NONE = -1
#: The first sizes of arrays that grow, and of the table of known classes (a power of two).
_ROOM, _TABLE = 1024, 4096
#: Odd constants of a mixing of 64 bits (splitmix64).
_MIX_1, _MIX_2, _MIX_3 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@kernel
def shortest_paths(
    first: Array, neighbour: Array, cost: Array, edge: Array, sources: Array, parents: Array
) -> None:
    """Fills `parents` (int32 [n, n], by source and node) for each of `sources`; elsewhere it stays.

    Dijkstra on cost. Of two parents with paths of equal cost, the path is lighter whose highest edge outside
    the other path is lower: the highest edge that only one of two sets has decides which set, as an integer,
    is greater.
    """
    count = len(first) - 1
    distance = np.empty(count, np.int64)
    hops = np.zeros(count, np.int64)
    last_edge = np.zeros(count, np.int64)
    done = np.empty(count, np.bool_)
    heap_cost = np.empty(len(neighbour) + 1, np.int64)
    heap_node = np.empty(len(neighbour) + 1, np.int64)
    for source in sources:
        parent = parents[source]
        distance[:] = np.iinfo(np.int64).max
        done[:] = False
        distance[source] = 0
        hops[source] = 0
        heap_cost[0], heap_node[0] = 0, source
        size = 1
        while size:
            node = heap_node[0]
            size -= 1
            _sift_down(heap_cost, heap_node, size)
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
                    _push(heap_cost, heap_node, size, candidate, other)
                    size += 1
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


@callee
def _push(heap_cost: Array, heap_node: Array, size: I64, cost: I64, node: I64) -> None:
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if heap_cost[above] <= cost:
            break
        heap_cost[at], heap_node[at] = heap_cost[above], heap_node[above]
        at = above
    heap_cost[at], heap_node[at] = cost, node


@callee
def _sift_down(heap_cost: Array, heap_node: Array, size: I64) -> None:
    """Puts the entry at `size` in the place of the first one, which has been taken."""
    cost, node, at = heap_cost[size], heap_node[size], 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and heap_cost[below + 1] < heap_cost[below]:
            below += 1
        if heap_cost[below] >= cost:
            break
        heap_cost[at], heap_node[at] = heap_cost[below], heap_node[below]
        at = below
    heap_cost[at], heap_node[at] = cost, node


@callee
def _mixed(number: np.uint64) -> np.uint64:
    number += np.uint64(_MIX_1)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(_MIX_2)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(_MIX_3)
    return number ^ (number >> np.uint64(31))


@callee
def _grown(array: Array, used: I64) -> Array:
    """The array, or a copy of twice its size if it is full."""
    if used < len(array):
        return array
    larger = np.empty(2 * len(array), array.dtype)
    larger[:used] = array[:used]
    return larger


@kernel
def subtree_classes(
    first: Array, neighbour: Array, sources: Array, parents: Array, most: I64, class_of: Array
) -> Tuple:
    """Numbers the pairs (parent, set of nodes in the subtree) of each node, in order of their first source.

    The subtree of a node is determined by its children and the numbers of these children, whose parent is the
    node. So equal sets are found without looking at sets: a hash finds a known class, and the comparison of
    its children decides.

    Args:
        sources: the sources in ascending order.
        parents: int32 [n, n], by source and node.
        most: greatest number of classes of a node.
        class_of: uint16 [n, n], by node and source; zeros, filled with the numbers.

    Returns:
        Of each class, in order of creation: its node, its parent, where its children begin; of each child:
        its node and its class. Last, a node that has too many classes, or -1.
    """
    count = len(first) - 1
    class_node, class_parent = np.empty(_ROOM, np.int32), np.empty(_ROOM, np.int32)
    class_number, class_hash = np.empty(_ROOM, np.int32), np.empty(_ROOM, np.uint64)
    class_first = np.zeros(_ROOM, np.int64)
    child_node, child_class = np.empty(_ROOM, np.int32), np.empty(_ROOM, np.uint16)
    table = np.full(_TABLE, _NONE, np.int64)
    classes = children = 0
    numbers = np.zeros(count, np.int64)  # classes of each node so far
    current = np.zeros(count, np.int64)  # class of each node on the present tree
    waiting = np.zeros(count, np.int64)  # children of each node
    pending = np.zeros(count, np.int64)  # of these, without a class yet
    hashes = np.zeros(count, np.uint64)
    ready = np.empty(count, np.int64)
    for source in sources:
        parent = parents[source]
        waiting[:] = 0
        hashes[:] = 0
        for node in range(count):
            if parent[node] != _NONE:
                waiting[parent[node]] += 1
        size = 0
        for node in range(count):
            pending[node] = waiting[node]
            if waiting[node] == 0 and (node == source or parent[node] != _NONE):
                ready[size] = node
                size += 1
        while size:
            size -= 1
            node = ready[size]
            above = parent[node]
            value = _mixed(hashes[node] + _mixed(np.uint64(node) << np.uint64(32) | np.uint64(above + 1)))
            slot = np.int64(value & np.uint64(len(table) - 1))
            found = _NONE
            while table[slot] != _NONE:
                known = table[slot]
                if (
                    class_hash[known] == value
                    and class_node[known] == node
                    and class_parent[known] == above
                    and class_first[known + 1] - class_first[known] == waiting[node]
                ):
                    equal = True
                    for at in range(class_first[known], class_first[known + 1]):
                        child = child_node[at]
                        equal = equal and parent[child] == node and current[child] == child_class[at]
                    if equal:
                        found = known
                        break
                slot = (slot + 1) & (len(table) - 1)
            if found == _NONE:
                numbers[node] += 1
                if numbers[node] > most:
                    return (
                        class_node[:classes],
                        class_parent[:classes],
                        class_first[: classes + 1],
                        child_node[:children],
                        child_class[:children],
                        node,
                    )
                found = classes
                class_node, class_parent = _grown(class_node, classes), _grown(class_parent, classes)
                class_number, class_hash = _grown(class_number, classes), _grown(class_hash, classes)
                class_node[found], class_parent[found] = node, above
                class_number[found], class_hash[found] = numbers[node], value
                for at in range(first[node], first[node + 1]):
                    child = neighbour[at]
                    if parent[child] == node:
                        child_node, child_class = _grown(child_node, children), _grown(child_class, children)
                        child_node[children], child_class[children] = child, current[child]
                        children += 1
                classes += 1
                class_first = _grown(class_first, classes)
                class_first[classes] = children
                table[slot] = found
                if 2 * classes > len(table):
                    table = np.full(2 * len(table), _NONE, np.int64)
                    for known in range(classes):
                        slot = np.int64(class_hash[known] & np.uint64(len(table) - 1))
                        while table[slot] != _NONE:
                            slot = (slot + 1) & (len(table) - 1)
                        table[slot] = known
            current[node] = class_number[found]
            class_of[node, source] = class_number[found]
            if above != _NONE:
                hashes[above] += _mixed(np.uint64(node) << np.uint64(32) | np.uint64(current[node]))
                pending[above] -= 1
                if pending[above] == 0:
                    ready[size] = above
                    size += 1
    return (
        class_node[:classes],
        class_parent[:classes],
        class_first[: classes + 1],
        child_node[:children],
        child_class[:children],
        _NONE,
    )


@kernel
def hops_from_sources(sources: Array, parents: Array, hops: Array) -> None:
    """Fills `hops` (int32 [n, n], by source and node): hops from the source on its tree; -1: not on it."""
    count = len(parents)
    trail = np.empty(count, np.int64)
    for source in sources:
        parent, found = parents[source], hops[source]
        found[:] = _NONE
        found[source] = 0
        for node in range(count):
            size, at = 0, node
            while found[at] == _NONE and parent[at] != _NONE:
                trail[size] = at
                size += 1
                at = parent[at]
            if found[at] != _NONE:
                for back in range(size):
                    found[trail[size - 1 - back]] = found[at] + back + 1
