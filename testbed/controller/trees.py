"""The broadcast layer: one tree per source, and each router's part in them.

CBCB needs all-pairs path symmetry (protocol paper, section 3.1): the path u -> v in T_u is the reverse of
v -> u in T_v. It also needs subpaths to agree: a node that any tree reaches through interface i of router u
is reached through i on T_u as well. Both follow when shortest paths are unique, so ties are broken exactly.

**Tie-breaking.** Edge e of the m declared edges gets the integer weight `cost(e) << m | 1 << index(e)`
(docs/adr/0001). Comparing weights means: compare costs and, if they are equal, the edge sets as integers. `m`
is that of the declared topology even when links are down, so a failure changes no path that it does not cut.

**Subtrees.** Routing schemes with predicates by source need the nodes in a router's subtrees. A class of
sources (`router.wire.frames.TreeClass`) has one set of nodes in the router's subtree. That set is a union of
classes: by the symmetry of paths, r is below u on T_s exactly if s is below u on T_r, and that depends on the
class of r alone. So a bit for each pair of classes is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from router.registry import Registry
from router.wire.frames import BroadcastTable
from testbed.controller.classes import NO_PARENT, Adjacency, hops_of, tables_of
from topos import Link, Topology


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
        sources: the nodes that are up, in ascending order.
        parents: int32 [n, n], by source and node: the next node towards the source, or NO_PARENT: the source
            itself, and a node that the source does not reach.
        links: the links in use: up, and between nodes that are up.
        floods: routers send on every interface but the one towards the source. The trees are then the paths
            on which frames are accepted; a receiver drops a frame that came by another path.
    """

    sources: npt.NDArray[np.intp]
    parents: npt.NDArray[np.int32]
    links: tuple[Link, ...]
    floods: bool = False

    def tree(self, source: int) -> Tree:
        """Makes the tree of a source, in time proportional to the number of nodes.

        The tree of a node that is down has that node alone.
        """
        parents = self.parents[source].tolist()
        children: list[list[int]] = [[] for _ in parents]
        for node, parent in enumerate(parents):
            if parent != NO_PARENT:
                children[parent].append(node)
        order = [source]
        for node in order:  # `order` grows in the loop
            order += children[node]
        return Tree(source, tuple(parents), tuple(order))

    def trees(self) -> dict[int, Tree]:
        return {source: self.tree(source) for source in self.sources.tolist()}


#: A broadcast layer: topology, indices of the links that are down, nodes that are down -> trees.
#: Its trees must have symmetric paths and agreeing subpaths.
BroadcastLayer = Callable[[Topology, frozenset[int], frozenset[int]], Forest]


def spt_trees(
    topology: Topology,
    down_links: frozenset[int] = frozenset(),
    down_nodes: frozenset[int] = frozenset(),
    used: Callable[[int, Sequence[Link]], Sequence[Link]] = lambda _count, links: links,
) -> Forest:
    """Shortest-path trees by cost, unique by the tie-breaking rule of this module.

    A node that is down is neither a source nor on a path. In a partitioned network each tree spans its
    source's component.

    Args:
        used: chooses those of the links in use that the trees have, by the number of nodes.
    """
    count = len(topology.nodes)
    links = tuple(
        link
        for link in topology.links
        if link.index not in down_links and link.u not in down_nodes and link.v not in down_nodes
    )
    sources = np.array([node for node in range(count) if node not in down_nodes], np.intp)
    found = parents_from(Adjacency.of(count, used(count, links)), sources)
    if len(sources) == count:
        return Forest(sources, found, links)  # Not a second matrix: at 10,000 nodes each takes 400 MB.
    parents = np.full((count, count), NO_PARENT, np.int32)
    parents[sources] = found
    return Forest(sources, parents, links)


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
    # The paths of an acyclic graph are its shortest paths.
    return spt_trees(topology, down_links, down_nodes, spanning_links)


def spanning_links(count: int, links: Iterable[Link]) -> list[Link]:
    """Returns the links of the minimum spanning tree; in a partitioned network, of a tree of each component.

    Args:
        count: the number of nodes.
    """
    component = list(range(count))

    def root(node: int) -> int:
        while component[node] != node:
            component[node] = component[component[node]]
            node = component[node]
        return node

    used = []
    for link in sorted(links, key=lambda link: (link.cost, link.index)):
        u, v = root(link.u), root(link.v)
        if u != v:
            component[u] = v
            used.append(link)
    return used


@lru_cache(maxsize=8)
def hops_on_trees(
    topology: Topology, layer: BroadcastLayer, down_links: frozenset[int], down_nodes: frozenset[int]
) -> npt.NDArray[np.int32]:
    """Returns int32 [n, n], by source and node: hops from the source on its tree; -1: not on the tree."""
    forest = layer(topology, down_links, down_nodes)
    hops = hops_of(forest.sources, forest.parents)
    # The check, the estimate and the oracle of an experiment share the matrices, whose trees take seconds at
    # 3,200 nodes; most messages are sent on the same trees.
    hops.flags.writeable = False
    return hops


def broadcast_tables(topology: Topology, forest: Forest, subtrees: bool = False) -> dict[int, BroadcastTable]:
    """Returns each router's part in every tree, as sent to the routers; nodes that are down have none.

    A class (`router.wire.tree_classes`) is a pair (parent interface, set of nodes in this router's subtree
    of T_s). Classes are numbered from 1 in order of the first source that has them. The numbers are those of
    one router and one epoch: equal numbers at two routers, or in two epochs, mean nothing.

    Args:
        subtrees: whether the tables have `subtrees`, which some routing schemes need.

    Raises:
        ValueError: a router has more such pairs than a table can number.
    """
    adjacency = Adjacency.of(len(topology.nodes), forest.links)
    tables = tables_of(adjacency, forest.sources, forest.parents, forest.floods)
    return _with_subtrees(tables, forest) if subtrees else tables


def parents_from(adjacency: Adjacency, sources: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
    """Returns int32 [sources, n]: the trees of some sources, as rows of `Forest.parents`."""
    from testbed.controller.paths import shortest_paths  # Numba takes half a second to load.

    found = np.full((len(sources), len(adjacency.first) - 1), NO_PARENT, np.int32)
    shortest_paths(adjacency.first, adjacency.neighbour, adjacency.cost, adjacency.edge, sources, found)
    return found


#: Broadcast layers by the name that experiment files give.
LAYERS = Registry[BroadcastLayer]("broadcast layer", "cbcb.layers")
LAYERS.register("spt", spt_trees, "A shortest-path tree for each source.")
LAYERS.register("spanning-tree", spanning_trees, "One minimum spanning tree for all sources.")
LAYERS.register("rpf", reverse_path_trees, "Reverse-path forwarding along shortest paths.")


_Numbers = npt.NDArray[np.int64]


def _with_subtrees(tables: Mapping[int, BroadcastTable], forest: Forest) -> dict[int, BroadcastTable]:
    """Returns the tables of a forest with their `subtrees`."""
    found: dict[int, npt.NDArray[np.bool_]] = {}
    members: dict[int, _Numbers] = {}
    # Source -> the routers and classes that it stands for.
    stands_for: dict[int, list[tuple[int, int]]] = {source: [] for source in forest.sources.tolist()}
    for node, table in tables.items():
        numbers, first = np.unique(table.class_of, return_index=True)
        members[node] = first[numbers > 0]
        found[node] = np.zeros((len(members[node]), len(members[node])), dtype=np.bool_)
        for row, source in enumerate(members[node].tolist()):
            stands_for[source].append((node, row))
    for source, places in stands_for.items():
        if not places:
            continue
        start, size = _intervals(forest.tree(source))
        for node, row in places:
            # A node that the source does not reach has no class at a router that it does reach.
            behind = start[members[node]] - start[node]
            found[node][row] = (behind >= 0) & (behind < size[node])
    return {node: replace(table, subtrees=found[node]) for node, table in tables.items()}


def _intervals(tree: Tree) -> tuple[_Numbers, _Numbers]:
    """Start and size: the subtree of u holds the nodes whose start is less than size[u] behind that of u."""
    parents = tree.parents
    size = [1] * len(parents)
    for node in reversed(tree.order[1:]):
        size[parents[node]] += size[node]
    start = [0] * len(parents)
    free = [1] * len(parents)
    for node in tree.order[1:]:
        parent = parents[node]
        start[node] = free[parent]
        free[parent] += size[node]
        free[node] = start[node] + 1
    return np.array(start), np.array(size)
