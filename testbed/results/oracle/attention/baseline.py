"""CBR: an ideal content-based network with exhaustive semantics, on the trees of the experiment.

A publication crosses exactly the links of its source's tree that lead to routers with a matching subscription
in its lifetime (as the schemes `psf` and `ips` deliver). Each registration, renewals included, is flooded: N
- 1 crossings. Source: section 5, and Carzaniga, Rembert, Wolf, technical report 2006/05 of the University of
Lugano.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from testbed.controller.classes import NO_PARENT
from testbed.controller.trees import Forest


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


#: Begin and end in seconds, predicate and home of a registration or a renewal.
Lifetime = tuple[float, float, int, int]
#: Time in seconds and source of a publication, and the predicates that select it.
Upload = tuple[float, int, Sequence[int]]


def crossings(parents: Sequence[int], source: int, receivers: Iterable[int]) -> int:
    """Returns the links of a source's tree (`Tree.parents`) on the paths to the receivers that it reaches."""
    on_path: set[int] = set()
    for node in receivers:
        if parents[node] == NO_PARENT:
            continue
        while node != source and node not in on_path:
            on_path.add(node)
            node = parents[node]
    return len(on_path)


def exhaustive_cost(lifetimes: Sequence[Lifetime], uploads: Iterable[Upload], forest: Forest) -> Cost:
    """Returns the traffic of CBR for subscriptions and publications, each in order of time."""
    trees: list[list[int]] = forest.parents.tolist()
    crossed = cache(lambda source, receivers: crossings(trees[source], source, receivers))
    #: Predicate -> node -> subscriptions in their lifetime; the nodes as a key of the cache.
    active: defaultdict[int, Counter[int]] = defaultdict(Counter)
    nodes_of: dict[int, frozenset[int]] = {}
    begins = iter(lifetimes)
    following = next(begins, None)
    ends: list[tuple[float, int, int]] = []
    publications = deliveries = 0
    for at_s, source, predicates in uploads:
        while following is not None and following[0] <= at_s:
            _, until_s, predicate, node = following
            active[predicate][node] += 1
            if active[predicate][node] == 1:
                nodes_of[predicate] = frozenset(active[predicate])
            heapq.heappush(ends, (until_s, predicate, node))
            following = next(begins, None)
        while ends and ends[0][0] <= at_s:
            _, predicate, node = heapq.heappop(ends)
            active[predicate][node] -= 1
            if not active[predicate][node]:
                del active[predicate][node]
                nodes_of[predicate] = frozenset(active[predicate])
        found = [nodes_of[predicate] for predicate in predicates if nodes_of.get(predicate)]
        if found:
            receivers = found[0] if len(found) == 1 else frozenset().union(*found)
            publications += crossed(source, receivers)
            deliveries += len(receivers)
    return Cost(publications, deliveries, len(lifetimes) * (len(trees) - 1))
