"""A network of links as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
