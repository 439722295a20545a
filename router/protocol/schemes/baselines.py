"""Baselines that stand between flooding and content-based routing: multicast groups, and topics.

Topics, as brokers that bridges join have them: a filter subscribes to one topic, and the host drops what its
predicate does not select. Content-based routing on an acyclic overlay with covering (A. Carzaniga,
D. Rosenblum, A. Wolf, "Design and evaluation of a wide-area event notification service", ACM TOCS 19(3),
2001) needs no scheme of its own: it is `pif` on the layer `spanning-tree`, with periodic SRs in place of
unsubscriptions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from router.options import setting
from router.predicates import Filter, Operator, Predicate
from router.protocol.broadcast import Branch
from router.protocol.context import Context
from router.protocol.pull.requests import Answer, ReplyRules
from router.protocol.routing import Report, RoutingTable
from router.protocol.schemes.per_interface import PerInterface
from router.protocol.schemes.receiver_partitioning import ReceiverPartitioning


@lru_cache(maxsize=256)
def clusters(interests: tuple[tuple[int, frozenset[Filter]], ...], most: int) -> tuple[frozenset[int], ...]:
    """Returns at most so many groups of nodes.

    The two groups whose union adds the least waste become one, of equal pairs the first, until they are few
    enough. The waste of a group is the messages that its members get and did not ask for, if each topic has
    as many messages as nodes that ask for it: a router does not know the rates of other senders.

    Args:
        interests: node and the topics of its predicate, in ascending order of nodes.
    """
    topics = {topic for _, of_node in interests for topic in of_node}
    asked = np.array([[topic in of_node for topic in topics] for _, of_node in interests], dtype=float)
    groups, rates = [frozenset((node,)) for node, _ in interests], asked.sum(axis=0)
    while len(groups) > most:
        sizes, own = np.array([*map(len, groups)]), asked @ rates
        united = np.add.outer(own, own) - (asked * rates) @ asked.T
        waste = np.add.outer(sizes, sizes) * united - np.add.outer(sizes * own, sizes * own)
        np.fill_diagonal(waste, np.inf)
        one, other = divmod(int(waste.argmin()), len(groups))
        groups[one] |= groups.pop(other)
        asked[one] = np.maximum(asked[one], asked[other])
        asked = np.delete(asked, other, axis=0)
    return tuple(groups)


@dataclass(frozen=True)
class Groups:
    """The options of `multicast`."""

    groups: int = setting(16, "Most multicast groups.", low=1)


class Multicast(ReceiverPartitioning):
    """K multicast groups: a message goes to all nodes of each group that has a receiver of it.

    A group's predicate is the disjunction of those of its nodes. A link that leads to several groups carries
    one copy, where groups with trees of their own need more.
    """

    options = Groups
    reads_filters = True

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        super().__init__(context, routing)
        #: The groups, with the p0 that they are of; None: another predicate has changed.
        self._groups: tuple[Predicate, tuple[frozenset[int], ...]] | None = None

    def predicate_changed(self, issuer: int, was: Predicate, now: Predicate) -> None:
        super().predicate_changed(issuer, was, now)
        self._groups = None

    def addressed(self, receivers: Collection[int]) -> Iterable[int]:
        local = self.routing.local
        if self._groups is None or self._groups[0] != local:
            predicates = sorted({**self.known, self.context.node: local}.items())
            interests = tuple((node, frozenset(topics_of(each))) for node, each in predicates if each)
            self._groups = local, clusters(interests, self.context.options.scheme_options.groups)
        groups = (group for group in self._groups[1] if not group.isdisjoint(receivers))
        return frozenset[int]().union(*groups)


class Topics(PerInterface):
    """Brokers of topics: RAs and URs ask for the topics of p0, and p0 alone decides about delivery."""

    stays_exact = "whose tables hold topics"
    reads_filters = True

    def reply_rules(self) -> ReplyRules:
        return _TopicReplies(self.context, self.routing)

    def announced(self, local: Predicate) -> Predicate:
        return topics_of(local)


class _TopicReplies(ReplyRules):
    def assembled(self, epoch: int, branch: Branch, reports: Iterable[Report]) -> Answer:
        answer = super().assembled(epoch, branch, reports)
        # The topics cover p0, which is in the answer.
        answer[None].unite(self.content.builder(topics_of(self._routing.local)))
        return answer


def topics_of(predicate: Predicate) -> Predicate:
    """Returns the topics of filters: of each its first equality; without an equality, all topics."""
    topics = (tuple(each for each in asked if each.operator is Operator.EQ)[:1] for asked in predicate)
    return Predicate(tuple(dict.fromkeys(map(Filter, topics))))
