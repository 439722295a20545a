"""Dynamic receiver partitioning: `[routing] scheme = "drp"`; on top of it, two baselines.

Slides on routing, part III; the authors' DV/DRP. The router of the sender matches a message against the
predicate of every node, and writes the nodes that it matches into the frame (`frames.AddressedMessage`). Each
router on the way partitions the destinations by next hop, and sends each neighbour its part. A router that is
named decides by its own p0 about delivery; no other router matches the message.

The next hop to a node x is the parent on T_x. Paths are symmetric and subpaths agree, so it is a child on the
tree of the message's source: frames stay on T_s, and the links that a message crosses are those of the paths
from s to its destinations, each once. With these trees the scheme is minimal; the slides call it non-minimal,
which it is where next hops are not those of one tree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from router.options import setting
from router.predicates import Filter, Predicate
from router.protocol.broadcast import Branch
from router.protocol.context import Context
from router.protocol.events import Action, Send
from router.protocol.routing import RoutingTable
from router.protocol.schemes import Outputs, Row, TablePart
from router.protocol.schemes.identified import Identified
from router.protocol.schemes.per_interface import topics_of
from router.records import MessageFrames
from router.wire.frames import AddressedMessage, Frame
from router.wire.header import LOCAL_INTERFACE

_LOCAL = frozenset({LOCAL_INTERFACE})


@dataclass(frozen=True, slots=True)
class Partition(Outputs):
    """The outputs of a message with its destinations by interface, in ascending order."""

    destinations: Mapping[int, tuple[int, ...]]


class ReceiverPartitioning(Identified):
    """A message goes to the destinations that its source has chosen.

    The entry of node x in the routing table has the number x + 1; 0 is p0.
    """

    message_frames: ClassVar[MessageFrames] = "parts"

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        super().__init__(context, routing)
        #: The entries; None: they have changed.
        self._among: frozenset[int] | None = None

    @property
    def message_bodies(self) -> tuple[type, ...]:
        """A message without destinations is of a router with another scheme."""
        return (AddressedMessage,)

    def predicate_changed(self, issuer: int, was: Predicate, now: Predicate) -> None:  # noqa: ARG002
        self.routing.replace(issuer + 1, self.context.content.builder(now))
        self._among = None

    def outputs(self, branch: Branch, frame: Frame) -> Partition:
        body = frame.body
        if isinstance(body, AddressedMessage):
            named = self.context.node in body.destinations
            local = named and bool(self.routing.match(body.message, _LOCAL))
            return self._partition(branch, frame.epoch, body.destinations, local)
        if self._among is None:
            entries = [issuer + 1 for issuer, predicate in self.known.items() if predicate]
            self._among = frozenset([LOCAL_INTERFACE, *entries])
        matched = self.routing.match(self.context.content.message_in(frame), self._among)
        own = self.context.node
        receivers = {own if number == LOCAL_INTERFACE else number - 1 for number in matched}
        destinations = sorted(self.addressed(receivers))
        return self._partition(branch, frame.epoch, destinations, LOCAL_INTERFACE in matched)

    def addressed(self, receivers: Collection[int]) -> Iterable[int]:
        """The nodes that a message of this router names.

        Args:
            receivers: the nodes whose predicates select the message, which may be this node.
        """
        return receivers

    def _partition(self, branch: Branch, epoch: int, destinations: Iterable[int], local: bool) -> Partition:
        parts = self.context.partition(branch, epoch, destinations)
        return Partition(frozenset(parts), local, parts)

    def sends(self, outputs: Outputs, frame: Frame) -> list[Action]:
        assert isinstance(outputs, Partition)
        body = frame.body
        message = (
            body.message if isinstance(body, AddressedMessage) else self.context.content.message_in(frame)
        )
        return [
            Send(frozenset({interface}), replace(frame, body=AddressedMessage(each, message)))
            for interface, nodes in sorted(outputs.destinations.items())
            for each in self.named(nodes)
        ]

    def named(self, nodes: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
        """The destinations of each copy that a neighbour gets of a message for some nodes."""
        return (nodes,)

    def rows(self) -> Iterable[Row]:
        return self.rib_rows(TablePart.FORWARDING)


class Unicast(ReceiverPartitioning):
    """A baseline: each receiver gets a copy of its own, along the tree of the source.

    Copies have one number, so fragments that are lost of a copy spoil the next one as well.
    """

    message_frames: ClassVar[MessageFrames] = "copies"

    def named(self, nodes: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
        return ((node,) for node in nodes)


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
