"""CBR: an ideal content-based network with exhaustive semantics, on the trees of the experiment.

A publication crosses exactly the links of its source's tree that lead to routers with a matching subscription
in its lifetime (as the schemes `psf` and `ips` deliver). Each registration, renewals included, is flooded: N
- 1 crossings. Source: section 5, and Carzaniga, Rembert, Wolf, technical report 2006/05 of the University of
Lugano.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from testbed.controller.classes import NO_PARENT
from testbed.controller.trees import Forest
from testbed.results.oracle.attention import History


@dataclass(frozen=True)
class Cost:
    """The traffic of CBR.

    Attributes:
        publication_crossings: crossings of links by publications.
        router_deliveries: pairs of a publication and a router with a matching subscription.
        control_crossings: crossings of links by registrations.
    """

    publication_crossings: int = 0
    router_deliveries: int = 0
    control_crossings: int = 0


class MinimalTrees:
    """The parts of broadcast trees that lead to given routers.

    Attributes:
        crossings: returns the links of a source's tree on the paths to the receivers that it reaches.
    """

    def __init__(self, forest: Forest) -> None:
        self._parents: list[list[int]] = forest.parents.tolist()
        self.crossings = cache(self._count)

    def _count(self, source: int, receivers: frozenset[int]) -> int:
        parents = self._parents[source]
        on_path: set[int] = set()
        for node in receivers:
            if parents[node] == NO_PARENT:
                continue
            while node != source and node not in on_path:
                on_path.add(node)
                node = parents[node]
        return len(on_path)


class Exhaustive:
    """Counts the traffic of CBR; calls are in order of time.

    Args:
        forest: the trees, the same throughout.
    """

    def __init__(self, forest: Forest, nodes: int) -> None:
        self._trees = MinimalTrees(forest)
        self._flood = nodes - 1
        #: Predicate -> node -> subscriptions in their lifetime.
        self._active: dict[int, Counter[int]] = {}
        #: Predicate -> the nodes with an active subscription.
        self._nodes: dict[int, frozenset[int]] = {}
        self._publications = self._deliveries = self._registrations = 0

    @property
    def cost(self) -> Cost:
        return Cost(self._publications, self._deliveries, self._registrations * self._flood)

    def registered(self, predicate: int, node: int) -> None:
        """A registration or a renewal begins a lifetime."""
        self._registrations += 1
        active = self._active.setdefault(predicate, Counter())
        active[node] += 1
        if active[node] == 1:
            self._nodes[predicate] = frozenset(active)

    def ended(self, predicate: int, node: int) -> None:
        active = self._active[predicate]
        active[node] -= 1
        if not active[node]:
            del active[node]
            self._nodes[predicate] = frozenset(active)

    def published(self, source: int, predicates: Iterable[int]) -> None:
        """A publication that these predicates select was uploaded."""
        receivers: frozenset[int] = frozenset()
        for predicate in predicates:
            nodes = self._nodes.get(predicate)
            if nodes:
                receivers = receivers | nodes if receivers else nodes
        if receivers:
            self._publications += self._trees.crossings(source, receivers)
            self._deliveries += len(receivers)


def exhaustive_cost(history: History, forest: Forest, nodes: int) -> Cost:
    """Returns the traffic of CBR for the subscriptions and publications of a run."""
    network = Exhaustive(forest, nodes)
    selecting = [tuple(np.flatnonzero(row).tolist()) for row in history.selects]
    begins = iter(sorted(history.rounds, key=lambda each: each.begin_s))
    following = next(begins, None)
    ends: list[tuple[float, int, int]] = []
    columns = history.uploaded_s.tolist(), history.source.tolist(), history.content.tolist()
    for at_s, source, content in zip(*columns, strict=True):
        while following is not None and following.begin_s <= at_s:
            network.registered(following.predicate, following.home)
            until_s = following.deadline_s
            if following.withdrawn and following.ended_s is not None:
                until_s = min(until_s, following.ended_s)
            heapq.heappush(ends, (until_s, following.predicate, following.home))
            following = next(begins, None)
        while ends and ends[0][0] <= at_s:
            _, predicate, node = heapq.heappop(ends)
            network.ended(predicate, node)
        network.published(source, selecting[content])
    for each in [] if following is None else [following, *begins]:
        network.registered(each.predicate, each.home)
    return network.cost
