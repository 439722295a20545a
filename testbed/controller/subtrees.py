"""The nodes in a router's subtrees, by classes: what routing schemes with predicates by source need.

A class of sources (`router.wire.frames.TreeClass`) has one set of nodes in the router's subtree. That set is
a union of classes: by the symmetry of paths, r is below u on T_s exactly if s is below u on T_r, and that
depends on the class of r alone. So a bit for each pair of classes is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from router.wire.frames import BroadcastTable
from testbed.controller.trees import Forest, Tree, broadcast_tables
from topos.model import Topology

_Numbers = npt.NDArray[np.int64]


def router_tables(topology: Topology, forest: Forest, subtrees: bool) -> dict[int, BroadcastTable]:
    """Returns `broadcast_tables`, with `subtrees` if the routing scheme needs them."""
    tables = broadcast_tables(topology, forest)
    return with_subtrees(tables, forest) if subtrees else tables


def with_subtrees(tables: Mapping[int, BroadcastTable], forest: Forest) -> dict[int, BroadcastTable]:
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
