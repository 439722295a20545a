"""A network of links as arrays, and broadcast tables from trees: the classes of every router as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from router.wire.frames import BroadcastTable
from router.wire.tree_classes import CLASS_DTYPE, CLASS_MAX, OFF_TREE, REUSABLE, TreeClasses
from topos import Link

#: No parent: the source itself, or a node that the source does not reach.
NO_PARENT = -1
#: Trees that are worked on at once: enough for NumPy, in little memory.
_SOURCES_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Adjacency:
    """The links of each node, in the order of its interfaces.

    The links of node `n` are those from `first[n]` to before `first[n + 1]`.

    Attributes:
        first: int64 [nodes + 1].
        neighbour: int64, by link of a node: the node at the other end.
        cost, edge: int64: cost and index of the link.
        port: int64: the node's interface.
    """

    first: npt.NDArray[np.int64]
    neighbour: npt.NDArray[np.int64]
    cost: npt.NDArray[np.int64]
    edge: npt.NDArray[np.int64]
    port: npt.NDArray[np.int64]

    @classmethod
    def of(cls, count: int, links: Sequence[Link]) -> Adjacency:
        ends = [(link.u, link.v, link.cost, link.index, link.u_port) for link in links]
        ends += [(link.v, link.u, link.cost, link.index, link.v_port) for link in links]
        columns = np.array(ends, np.int64).reshape(-1, 5).T
        node, neighbour, cost, edge, port = columns[:, np.lexsort((columns[4], columns[0]))]
        first = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(node, minlength=count), out=first[1:])
        return cls(first, *map(np.ascontiguousarray, (neighbour, cost, edge, port)))


_Array: TypeAlias = npt.NDArray[Any]


def hops_of(sources: _Array, parents: _Array) -> _Array:
    """Returns int32 [n, n], by source and node: hops from each source on its tree; -1: not on the tree.

    Args:
        parents: int32 [n, n], by source and node (`trees.Forest`).
    """
    hops: _Array = np.full(parents.shape, -1, np.int32)
    for some in _in_slices(sources):
        rows = parents[some]
        found = (rows != NO_PARENT).astype(np.int32)
        for places, above in _ancestors(rows):
            found.ravel()[places] += found.ravel()[above]
        found[rows == NO_PARENT] = -1
        found[np.arange(len(some)), some] = 0
        hops[some] = found
    return hops


def _in_slices(sources: _Array) -> Iterator[_Array]:
    for start in range(0, len(sources), _SOURCES_AT_ONCE):
        yield sources[start : start + _SOURCES_AT_ONCE]


def _ancestors(parents: _Array) -> Iterator[tuple[_Array, _Array]]:
    """Places of nodes, and of their ancestors 1, 2, 4, 8... above, in the flat array of some trees.

    A place that is left out has no such ancestor. There are no more rounds than binary digits in the depth.
    """
    count = parents.shape[1]
    # One more place, above the places without an ancestor.
    outside = parents.size
    inner = parents != NO_PARENT
    starts = np.arange(0, outside, count)[:, None]
    ancestor = np.append(np.where(inner, starts + parents, outside), outside)
    places = np.flatnonzero(inner)
    while places.size:
        above = ancestor[places]
        yield places, above
        ancestor[places] = ancestor[above]
        places = places[ancestor[places] != outside]


def below(parents: _Array, weights: _Array) -> _Array:
    """Returns the sum of the weights of each node and of all nodes below it, in the flat array of some trees.

    Args:
        parents: rows of `trees.Forest.parents`.
        weights: by place in that array.
    """
    sums = weights.copy()
    # Of each place the nodes less than 1, 2, 4... hops below it.
    for places, above in _ancestors(parents):
        np.add.at(sums, above, sums[places])
    return sums


def _keys(sources: _Array, parents: _Array) -> _Array:
    """Returns uint64 [n, n], by node and source: a number for the parent and the nodes of the subtree.

    It is the sum of the parent and of random numbers of the nodes, and so equal where both are. Two different
    sets of nodes have the same number with a probability of 2^-64, which makes less than 10^-8 for all pairs
    of sets of a network of 3,200 nodes.
    """
    count = len(parents)
    numbers = np.random.default_rng(count).integers(0, 2**64, count, np.uint64)
    keys = np.empty((count, count), np.uint64)
    for some in _in_slices(sources):
        rows = parents[some]
        sums = below(rows, np.tile(numbers, len(some)))
        keys[:, some] = (sums.reshape(rows.shape) + rows.astype(np.uint64)).T
    return keys


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
    count = len(parents)
    class_of = np.zeros((count, count), CLASS_DTYPE)
    keys = _keys(sources, parents)
    roots = {}  # of each router: the first source of each class
    for router in sources.tolist():
        reached = sources[(parents[sources, router] != NO_PARENT) | (sources == router)]
        _, first, which = np.unique(keys[router, reached], return_index=True, return_inverse=True)
        order = np.argsort(first)
        if len(order) > CLASS_MAX:
            raise ValueError(
                f"node {router}: more than {CLASS_MAX} different subtrees; a table cannot number them"
            )
        numbers = np.empty(len(order), CLASS_DTYPE)
        numbers[order] = np.arange(1, len(order) + 1)
        class_of[router, reached] = numbers[which]
        roots[router] = reached[first[order], None]
    tables = {}
    for router, root in roots.items():
        links = slice(adjacency.first[router], adjacency.first[router + 1])
        port, target = adjacency.port[links], adjacency.neighbour[links]
        # By class and link.
        is_parent, is_child = target == parents[root, router], parents[root, target] == router
        # Beyond a child off the tree there is nothing. Nothing is there on the router's own tree either if
        # the child is reached another way.
        equal = class_of[target, router] == class_of[target, root]
        reusable = np.where(is_child, equal, parents[router, target] != router)
        words = port | np.where(reusable, REUSABLE, 0) | np.where(is_child, 0, OFF_TREE)
        kept = ~is_parent if floods else is_child
        tables[router] = BroadcastTable(
            tuple(zip(port.tolist(), target.tolist(), strict=True)),
            TreeClasses(
                (is_parent * port).sum(axis=1).astype(np.uint16),
                np.concatenate(([0], np.cumsum(kept.sum(axis=1)))).astype(np.uint32),
                words[kept].astype(np.uint16),
            ),
            class_of[router],
        )
    return tables
