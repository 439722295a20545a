"""The nodes that a message reaches within its hop limit, on the broadcast trees of a network."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

#: (indices of the links that are down, nodes that are down) -> int32 [n, n], by source and node: hops from
#: the source on the source's broadcast tree.
HopsOnTrees: TypeAlias = Callable[[frozenset[int], frozenset[int]], npt.NDArray[np.int32]]


class HopLimit:
    """Compares the hops between two nodes with the hop limit of the frames.

    Args:
        nodes: number of nodes in the network.
        most: hops that a frame may take.
        hops_on_trees: of the network's broadcast layer.
    """

    def __init__(self, nodes: int, most: int, hops_on_trees: HopsOnTrees) -> None:
        self._most = most
        # A path visits each node once.
        self._reaches_all = most >= nodes - 1
        # The trees of 1,000 nodes take seconds, and most messages are sent on the same trees.
        self._hops_on_trees = lru_cache(maxsize=8)(hops_on_trees)

    def reaches(self, u: int, v: int, down_links: frozenset[int], down_nodes: frozenset[int]) -> bool:
        """Returns whether a message of `u` can reach `v` on the trees of the links and nodes that are up.

        The two nodes must be connected.
        """
        return self._reaches_all or bool(self._hops_on_trees(down_links, down_nodes)[u, v] <= self._most)
