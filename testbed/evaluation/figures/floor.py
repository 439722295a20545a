"""The false positives that remain with perfect tables: a prediction without a protocol.

A table of PIF holds, for each interface i of router u, the predicates of all nodes that u reaches through i
on its own tree T_u. A message from s that u receives is forwarded to the children of u on T_s whose
interfaces match. Fewer nodes lie beyond i on T_s than on T_u, so a message that matches p_i may find no
receiver there, even if every table holds the present predicates and nothing else. Such messages are part of
the scheme, and no SR removes them. On a spanning tree the two sets of nodes are equal, and the false
positives that remain are the messages that nobody but their sender's router receives.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from functools import cache
from typing import cast

import numpy as np
import numpy.typing as npt

from testbed.controller.classes import NO_PARENT
from testbed.controller.trees import LAYERS, Forest
from testbed.experiments.config import Experiment
from testbed.experiments.workload.generate import generate, selected

#: Begin of the steady state of a run that is longer, experiment seconds.
STEADY_S = 3600.0


def spread_of(experiment: Experiment, *begins_s: float) -> npt.NDArray[np.int64]:
    """Returns at how many routers messages arrive, and at how many a message is a false positive.

    A message counts at its own router and at each router that it reaches, as in figure 12; it is a false
    positive where it is neither forwarded nor delivered. Failures of links and nodes are left out.

    Args:
        begins_s: experiment seconds, ascending; messages before the first are not counted.

    Returns:
        int64 [k, 2]: both numbers, of messages from each of the times to the next.
    """
    tables, found = tables_of(experiment), np.zeros((len(begins_s), 2), np.int64)
    for item, selecting, _ in selected(generate(experiment)):
        if place := bisect_right(begins_s, item.at_s):
            found[place - 1] += tables.spread(item.node, {node for node, _ in selecting})
    return found


def tables_of(experiment: Experiment) -> PerfectTables:
    """Returns the perfect tables of a network without failures."""
    return PerfectTables(LAYERS[experiment.broadcast.layer](experiment.topology, frozenset(), frozenset()))


class PerfectTables:
    """Tables of PIF on the trees of a forest, which hold the present predicates and nothing else."""

    def __init__(self, forest: Forest) -> None:
        self._parents = forest.parents
        self._tree = cache(forest.tree)

    def spread(
        self, source: int, receivers: Collection[int], advertising: Collection[int] | None = None
    ) -> tuple[int, int]:
        """Returns at how many routers a message arrives, and at how many of them it is a false positive.

        Args:
            receivers: the nodes whose predicates select the message.
            advertising: the nodes whose advertised predicates select it; None: `receivers`.
        """
        ways = self._behind_a_link_of_interest
        tree, wanted = self._tree(source), ways(source, receivers if advertising is None else advertising)
        reached, forwarding = {source}, set()
        for node in tree.order[1:]:
            if wanted[node] and tree.parents[node] in reached:
                reached.add(node)
                forwarding.add(tree.parents[node])
        return len(reached), len(reached - forwarding - set(receivers))

    def _behind_a_link_of_interest(self, source: int, receivers: Collection[int]) -> list[bool]:
        """Whether each node is the next on the way of its parent, on the tree of `source`, to a receiver."""
        parent = self._parents[source]
        # By path symmetry, the way to a receiver begins at the node's parent on the receiver's tree.
        next_of_parent = self._parents[list(receivers)][:, parent]
        wanted = (next_of_parent == np.arange(len(parent))).any(axis=0)
        # The parent of the source is none, and that of a node that the source does not reach.
        wanted[parent == NO_PARENT] = False
        return cast("list[bool]", wanted.tolist())
