"""The broadcast layer: one tree per source, and each router's part in them.

CBCB needs all-pairs path symmetry (protocol paper, section 3.1): the path u -> v in T_u is the reverse of
v -> u in T_v. It also needs subpaths to agree: a node that any tree reaches through interface i of router u
is reached through i on T_u as well. Both follow when shortest paths are unique, so ties are broken exactly.

**Tie-breaking.** Edge e of the m declared edges gets the integer weight `cost(e) << m | 1 << index(e)`.
Weights add up along a path, a path uses an edge at most once, so the low m bits of its weight are the set
of its edges and two different paths never weigh the same. Comparing weights means: compare costs and, if
they are equal, the edge sets as integers. `m` is that of the declared topology even when links are down, so a
failure changes no path that it does not cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np

from router.registry import Registry
from router.wire.addresses import LOCAL_INTERFACE
from router.wire.frames import CLASS_DTYPE, BroadcastTable, TreeClass
from router.wire.table import CLASS_MAX
from topos.model import Link, Topology

#: No parent: the source itself, or a node that the source does not reach.
NO_PARENT = -1

#: Per node: (neighbour, cost, tie-breaking bit) of each usable link.
_Adjacency = list[list[tuple[int, int, int]]]


@dataclass(frozen=True, slots=True)
class Tree:
    """T_s, the broadcast tree rooted at `source`.

    Attributes:
        parents: per node, the next node towards the source, or NO_PARENT.
        order: the nodes that the source reaches, the source first, each node after its parent.
    """

    source: int
    parents: tuple[int, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Forest:
    """One tree for every source that is up, over the links that are up.

    Attributes:
        trees: source -> its tree.
        links: the links in use: up, and between nodes that are up.
        floods: routers send on every interface but the one towards the source. The trees are then the paths
            on which frames are accepted; a receiver drops a frame that came by another path.
    """

    trees: Mapping[int, Tree]
    links: tuple[Link, ...]
    floods: bool = False


#: A broadcast layer: topology, indices of the links that are down, nodes that are down -> trees.
#: Its trees must have symmetric paths and agreeing subpaths.
BroadcastLayer = Callable[[Topology, frozenset[int], frozenset[int]], Forest]


def spt_trees(
    topology: Topology, down_links: frozenset[int] = frozenset(), down_nodes: frozenset[int] = frozenset()
) -> Forest:
    """Shortest-path trees by cost, unique by the tie-breaking rule of this module.

    A node that is down is neither a source nor on a path. In a partitioned network each tree spans its
    source's component.
    """
    links = _links_up(topology, down_links, down_nodes)
    adjacency: _Adjacency = [[] for _ in topology.nodes]
    for link in links:
        bit = 1 << link.index
        adjacency[link.u].append((link.v, link.cost, bit))
        adjacency[link.v].append((link.u, link.cost, bit))
    unreached = 1 + sum(link.cost for link in links)
    trees = {
        node.id: _shortest_path_tree(node.id, adjacency, unreached)
        for node in topology.nodes
        if node.id not in down_nodes
    }
    return Forest(trees, links)


def reverse_path_trees(
    topology: Topology, down_links: frozenset[int] = frozenset(), down_nodes: frozenset[int] = frozenset()
) -> Forest:
    """Reverse-path forwarding (Dalal and Metcalfe, 1978; protocol paper, section 3.1) on symmetric routes.

    A router accepts a frame of source s from its unicast next hop to s alone, and sends it on by all its
    other interfaces. Routes are the shortest paths of `spt_trees`, so the accepted frames follow its trees.
    """
    return replace(spt_trees(topology, down_links, down_nodes), floods=True)


def spanning_trees(
    topology: Topology, down_links: frozenset[int] = frozenset(), down_nodes: frozenset[int] = frozenset()
) -> Forest:
    """One minimum spanning tree for all sources (in a partitioned network: one in each component).

    The weights of this module make it unique, and comparing them means comparing cost, then index.
    """
    links = _links_up(topology, down_links, down_nodes)
    component = list(range(len(topology.nodes)))

    def root(node: int) -> int:
        while component[node] != node:
            component[node] = component[component[node]]
            node = component[node]
        return node

    neighbours: list[list[int]] = [[] for _ in topology.nodes]
    for link in sorted(links, key=lambda link: (link.cost, link.index)):
        u, v = root(link.u), root(link.v)
        if u != v:
            component[u] = v
            neighbours[link.u].append(link.v)
            neighbours[link.v].append(link.u)
    trees = {node.id: _rooted(node.id, neighbours) for node in topology.nodes if node.id not in down_nodes}
    return Forest(trees, links)


def hops_on_trees(
    topology: Topology, layer: BroadcastLayer, down_links: frozenset[int], down_nodes: frozenset[int]
) -> dict[int, list[int]]:
    """Returns source -> for each node its hops from the source on the source's tree; -1: not on the tree."""
    forest = layer(topology, down_links, down_nodes)
    return {source: _hops_from_source(tree) for source, tree in forest.trees.items()}


def _hops_from_source(tree: Tree) -> list[int]:
    hops = [-1] * len(tree.parents)
    hops[tree.source] = 0
    for node in tree.order[1:]:
        hops[node] = hops[tree.parents[node]] + 1
    return hops


def _rooted(source: int, neighbours: list[list[int]]) -> Tree:
    """Returns an acyclic graph as a tree rooted at `source`."""
    parents = [NO_PARENT] * len(neighbours)
    order = [source]
    for node in order:  # `order` grows in the loop
        for neighbour in neighbours[node]:
            if neighbour != parents[node]:
                parents[neighbour] = node
                order.append(neighbour)
    return Tree(source, tuple(parents), tuple(order))


def _links_up(topology: Topology, down_links: frozenset[int], down_nodes: frozenset[int]) -> tuple[Link, ...]:
    return tuple(
        link
        for link in topology.links
        if link.index not in down_links and link.u not in down_nodes and link.v not in down_nodes
    )


def _shortest_path_tree(source: int, adjacency: _Adjacency, unreached: int) -> Tree:
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
    parents = [NO_PARENT] * count
    last_edge = [0] * count  # the bit of the edge to the parent
    edges = [0] * count  # the edge set of the path to the source; final once the node has left the heap
    order = []
    distance[source] = 0
    heap = [(0, source)]
    while heap:
        cost, node = heappop(heap)
        if cost != distance[node]:
            continue  # a shorter path was found after this one was queued
        order.append(node)
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
    return Tree(source, tuple(parents), tuple(order))


def broadcast_tables(topology: Topology, forest: Forest) -> dict[int, BroadcastTable]:
    """Returns each router's part in every tree, as sent to the routers; nodes that are down have none.

    A class (`frames.TreeClass`) is a pair (parent interface, set of nodes in this router's subtree of T_s).
    Classes are numbered from 1 in order of the first source that has them. The numbers are those of one
    router and one epoch: equal numbers at two routers, or in two epochs, mean nothing.

    Raises:
        ValueError: a router has more such pairs than `CLASS_MAX`.
    """
    count = len(topology.nodes)
    # Simple graph: the pair of nodes names the link. interface[u][v] is u's interface towards v.
    interface: list[dict[int, int]] = [{} for _ in range(count)]
    for link in forest.links:
        interface[link.u][link.v] = link.u_port
        interface[link.v][link.u] = link.v_port
    node_bit = [1 << node for node in range(count)]
    classes: list[dict[tuple[int, int], _SubtreeClass]] = [{} for _ in range(count)]
    class_of = np.zeros((count, count), dtype=CLASS_DTYPE)
    # Per node: child on its own tree -> the nodes beyond that child.
    beyond: list[dict[int, int]] = [{} for _ in range(count)]
    for source in sorted(forest.trees):
        tree = forest.trees[source]
        parents = tree.parents
        below = node_bit.copy()  # the nodes of each node's subtree, as a bitmask
        for node in reversed(tree.order):
            subtree = below[node]
            parent = parents[node]
            if parent != NO_PARENT:
                below[parent] |= subtree
                if parent == source:
                    beyond[source][node] = subtree
            # Subpaths agree, so a router reaches a set of nodes through the same children on every tree:
            # the children are looked up once per class, not once per source.
            known = classes[node].get((parent, subtree))
            if known is None:
                children = [child for child in interface[node] if parents[child] == node]
                known = _SubtreeClass(node, parent, subtree, children, len(classes[node]) + 1)
                classes[node][parent, subtree] = known
            class_of[node, source] = known.number
    return {
        node: BroadcastTable(
            neighbours=tuple(sorted((port, neighbour) for neighbour, port in interface[node].items())),
            classes=tuple(
                _fields(known, interface[node], beyond[node], forest.floods)
                for known in classes[node].values()
            ),
            class_of=class_of[node],
        )
        for node in sorted(forest.trees)
    }


class _SubtreeClass:
    """The trees on which a router has the same parent and the same subtree.

    Attributes:
        parent: the next node towards their sources, or NO_PARENT.
        subtree: the nodes of the router's subtree, itself included, as a bitmask.
        children: the neighbours that are the router's children on these trees.
    """

    __slots__ = ("children", "number", "parent", "subtree")

    def __init__(self, node: int, parent: int, subtree: int, children: list[int], number: int) -> None:
        if number > CLASS_MAX:
            raise ValueError(
                f"node {node}: more than {CLASS_MAX} different subtrees; a table cannot number them"
            )
        self.parent = parent
        self.subtree = subtree
        self.children = children
        self.number = number


def _fields(
    known: _SubtreeClass, interface: Mapping[int, int], beyond: Mapping[int, int], floods: bool
) -> TreeClass:
    """Returns a class as sent.

    Subpaths agree, so the nodes beyond a child of this router on T_s are a subset of the nodes beyond that
    child on the router's own tree: those in the router's subtree of T_s. A child is reusable if the two sets
    are equal.
    """
    targets = [node for node in interface if node != known.parent] if floods else known.children
    targets = sorted(targets, key=interface.__getitem__)
    off_tree = set(targets).difference(known.children)
    reusable = [
        node
        for node in targets
        if beyond.get(node, 0) == (0 if node in off_tree else beyond[node] & known.subtree)
    ]
    return TreeClass(
        LOCAL_INTERFACE if known.parent == NO_PARENT else interface[known.parent],
        tuple(interface[node] for node in targets),
        tuple(interface[node] for node in reusable),
        tuple(interface[node] for node in targets if node in off_tree),
    )


#: Broadcast layers by the name that experiment files give.
LAYERS = Registry[BroadcastLayer]("broadcast layer")
LAYERS.register("spt", spt_trees, "A shortest-path tree for each source.")
LAYERS.register("spanning-tree", spanning_trees, "One minimum spanning tree for all sources.")
LAYERS.register("rpf", reverse_path_trees, "Reverse-path forwarding along shortest paths.")
