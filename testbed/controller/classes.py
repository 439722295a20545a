"""A network of links as arrays, and broadcast tables from trees: the classes of every router as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from router.wire.frames import BroadcastTable
from router.wire.tree_classes import CLASS_DTYPE, CLASS_MAX, OFF_TREE, REUSABLE, TreeClasses
from topos.model import Link

#: No parent: the source itself, or a node that the source does not reach.
NO_PARENT = -1


@dataclass(frozen=True, slots=True)
class Adjacency:
    """The links of each node, in the order of its interfaces.

    The links of node `n` are those from `first[n]` to before `first[n + 1]`.

    Attributes:
        first: int64 [nodes + 1].
        node: int64, by link of a node: the node.
        neighbour: int64: the node at the other end.
        cost, edge: int64: cost and index of the link.
        port: int64: the node's interface.
    """

    first: npt.NDArray[np.int64]
    node: npt.NDArray[np.int64]
    neighbour: npt.NDArray[np.int64]
    cost: npt.NDArray[np.int64]
    edge: npt.NDArray[np.int64]
    port: npt.NDArray[np.int64]

    @classmethod
    def of(cls, count: int, links: Sequence[Link]) -> Adjacency:
        """Returns the links of `count` nodes."""
        ends = [(link.u, link.v, link.cost, link.index, link.u_port) for link in links]
        ends += [(link.v, link.u, link.cost, link.index, link.v_port) for link in links]
        columns = np.array(ends, np.int64).reshape(-1, 5).T
        node, neighbour, cost, edge, port = columns[:, np.lexsort((columns[4], columns[0]))]
        first = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(node, minlength=count), out=first[1:])
        return cls(first, *map(np.ascontiguousarray, (node, neighbour, cost, edge, port)))

    def positions(
        self, nodes: npt.NDArray[np.integer], neighbours: npt.NDArray[np.integer]
    ) -> npt.NDArray[np.intp]:
        """Returns the places of links by their two nodes, which must be neighbours."""
        count = len(self.first) - 1
        keys = self.node * count + self.neighbour
        order = np.argsort(keys)
        asked = nodes.astype(np.int64) * count + neighbours
        return order[np.searchsorted(keys, asked, sorter=order)]


_Array: TypeAlias = npt.NDArray[Any]


def tables_of(
    adjacency: Adjacency, sources: _Array, parents: _Array, floods: bool
) -> dict[int, BroadcastTable]:
    """Returns the tables of the nodes that are sources.

    Subpaths agree, so the nodes beyond a child of a router on T_s are a subset of the nodes beyond that child
    on the router's own tree. The two sets are equal, and the child reusable, if the child has the same class
    on both trees.

    Args:
        parents: int32 [n, n], by source and node.
        floods: see `trees.Forest`.

    Raises:
        ValueError: a router has more classes than `CLASS_MAX`.
    """
    from testbed.controller.paths import subtree_classes  # Numba takes half a second to load.

    count = len(adjacency.first) - 1
    class_of = np.zeros((count, count), CLASS_DTYPE)
    node, parent, first, child, child_class, crowded = subtree_classes(
        adjacency.first, adjacency.neighbour, sources, parents, CLASS_MAX, class_of
    )
    if crowded != -1:
        raise ValueError(
            f"node {crowded}: more than {CLASS_MAX} different subtrees; a table cannot number them"
        )
    # By node, and at each node by number: the order of creation.
    order = np.argsort(node, kind="stable")
    sizes = np.diff(first)[order]
    node, parent = node[order], parent[order]
    places = _spans(first[:-1][order], sizes)
    child, child_class, owner = child[places], child_class[places], np.repeat(np.arange(len(node)), sizes)
    if floods:
        words, sizes = _all_neighbours(
            adjacency, parents, class_of, node, parent, (owner, child, child_class)
        )
    else:
        words = adjacency.port[adjacency.positions(node[owner], child)]
        words = words | np.where(class_of[child, node[owner]] == child_class, REUSABLE, 0)
    ports = np.zeros(len(node), np.uint16)
    inner = parent != NO_PARENT
    ports[inner] = adjacency.port[adjacency.positions(node[inner], parent[inner])]
    ends = np.zeros(len(node) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    words = words.astype(np.uint16)
    spans = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(node, minlength=count), out=spans[1:])
    tables = {}
    for source in sources.tolist():
        start, end = spans[source], spans[source + 1]
        links = slice(adjacency.first[source], adjacency.first[source + 1])
        tables[source] = BroadcastTable(
            tuple(zip(adjacency.port[links].tolist(), adjacency.neighbour[links].tolist(), strict=True)),
            TreeClasses(
                ports[start:end],
                (ends[start : end + 1] - ends[start]).astype(np.uint32),
                words[ends[start] : ends[end]],
            ),
            class_of[source],
        )
    return tables


def _spans(starts: _Array, sizes: _Array) -> _Array:
    """The indices of spans that start at `starts`, one span behind the other."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def _all_neighbours(
    adjacency: Adjacency,
    parents: _Array,
    class_of: _Array,
    node: _Array,
    parent: _Array,
    on_tree: tuple[_Array, _Array, _Array],
) -> tuple[_Array, _Array]:
    """The children of classes where a router sends on all interfaces but the parent; and their numbers.

    Args:
        on_tree: of each child on the trees: its class, the child, the class of the child.
    """
    degrees = np.diff(adjacency.first)[node]
    places = _spans(adjacency.first[:-1][node], degrees)
    owner = np.repeat(np.arange(len(node)), degrees)
    away = adjacency.neighbour[places] != parent[owner]
    places, owner = places[away], owner[away]
    target, at = adjacency.neighbour[places], node[owner]
    # Beyond a child off the tree there is nothing; so there is on the router's own tree if the child is
    # reached another way.
    words = np.where(parents[at, target] == at, OFF_TREE, OFF_TREE | REUSABLE)
    count = len(class_of)
    keys, (known, child, child_class) = owner * count + target, on_tree
    order = np.argsort(keys)
    found = order[np.searchsorted(keys, known * count + child, sorter=order)]
    words[found] = np.where(class_of[child, node[known]] == child_class, REUSABLE, 0)
    return adjacency.port[places] | words, np.bincount(owner, minlength=len(node))
