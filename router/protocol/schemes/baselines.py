"""Baselines that stand between flooding and content-based routing: multicast groups, and topics.

Topics, as brokers that bridges join have them: a filter subscribes to one topic, and the host drops what its
predicate does not select. Content-based routing on an acyclic overlay with covering (A. Carzaniga,
D. Rosenblum, A. Wolf, "Design and evaluation of a wide-area event notification service", ACM TOCS 19(3),
2001) needs no scheme of its own: it is `pif` on the layer `spanning-tree`, with SRs in place of
unsubscriptions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import combinations

from router.predicates import Filter, Operator, Predicate
from router.predicates.covering.bitset import Bits
from router.predicates.encoded import BloomPredicate
from router.protocol.schemes.per_interface import PerInterface
from router.protocol.schemes.receiver_partitioning import ReceiverPartitioning
from router.wire.header import LOCAL_INTERFACE


@lru_cache(maxsize=256)
def clusters(predicates: tuple[tuple[int, Bits], ...], most: int) -> tuple[frozenset[int], ...]:
    """Returns at most so many groups of nodes.

    The two groups with the largest share of filters in common become one, of equal pairs the one with the
    fewest nodes, until they are few enough (agglomerative clustering by Jaccard's index).

    Args:
        predicates: node and the filters of its predicate, in ascending order of nodes.
    """
    groups = [(frozenset((node,)), filters) for node, filters in predicates]

    def likeness(pair: tuple[int, int]) -> tuple[float, int]:
        (nodes, filters), (others, more) = groups[pair[0]], groups[pair[1]]
        return (filters & more).bit_count() / (filters | more).bit_count(), -len(nodes) - len(others)

    while len(groups) > most:
        one, other = max(combinations(range(len(groups)), 2), key=likeness)
        nodes, filters = groups.pop(other)
        groups[one] = groups[one][0] | nodes, groups[one][1] | filters
    return tuple(nodes for nodes, _ in groups)


class Multicast(ReceiverPartitioning):
    """K multicast groups: a message goes to all nodes of each group that has a receiver of it.

    K is the number in the name of the scheme. A group's predicate is the disjunction of those of its nodes. A
    link that leads to several groups carries one copy, where groups with trees of their own need more.
    """

    def addressed(self, receivers: Collection[int]) -> Iterable[int]:
        filters = {node: held.members for node, held in self.held.items()}
        filters[self.context.node] = self.routing.copy_of(LOCAL_INTERFACE).members
        asking = tuple(sorted((node, members) for node, members in filters.items() if members))
        groups = clusters(asking, int(self.context.options.scheme.rpartition("-")[2]))
        return frozenset[int]().union(*(group for group in groups if not group.isdisjoint(receivers)))


class Topics(PerInterface):
    """Brokers of topics: an RA asks for the topics of p0, and p0 alone decides about delivery."""

    sends_requests = False
    stays_exact = "whose tables hold topics"

    def announced(self, local: Predicate) -> Predicate:
        # An encoded filter shows no constraint that could be its topic.
        if isinstance(local, BloomPredicate):
            return local
        return Predicate(tuple(dict.fromkeys(map(topic_of, local))))


def topic_of(asked: Filter) -> Filter:
    """Returns the topic of a filter, its first equality; without an equality, all topics."""
    return Filter(tuple(each for each in asked if each.operator is Operator.EQ)[:1])
