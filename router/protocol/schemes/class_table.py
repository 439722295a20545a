"""The routing table by classes of receivers: an entry for each class of each epoch.

A class of a router holds the nodes whose trees have the same parent and the same nodes below the router
(`frames.TreeClass`). p_k, the entry of class k, is the disjunction of the predicates of its nodes, as far as
RAs and URs have brought them. The numbers of classes are the controller's and differ between epochs, so the
entries are kept by epoch.

By the symmetry of paths, r is below u on T_s exactly if s is below u on T_r. A message of s at u can
therefore reach, beyond child w, exactly the nodes of the classes that have w as their parent and are in u's
subtree for the class of s (`frames.BroadcastTable.subtrees`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from router.predicates import Predicate
from router.predicates.covering.bitset import numbers_in
from router.protocol.broadcast import EpochTable
from router.protocol.context import Context
from router.protocol.routing import RoutingTable
from router.wire.header import LOCAL_INTERFACE


@dataclass(frozen=True, slots=True)
class Asked:
    """The entries that messages of a class of sources are matched against.

    Attributes:
        interfaces: entry -> the child beyond which its nodes are.
        among: the entries, and that of the local applications.
    """

    interfaces: dict[int, int]
    among: frozenset[int]


@dataclass(slots=True)
class EpochClasses:
    """The classes of one epoch.

    Attributes:
        entries: the entry of each class, by number from 1 (0 stands for no class). The class of the router
            itself has the entry of the local applications.
        parents: the interface that leads to the nodes of each class.
        nodes: the lowest node of each class.
        asked: what `ClassTable.asked` remembers.
    """

    table: EpochTable
    entries: tuple[int, ...]
    parents: tuple[int, ...]
    nodes: tuple[int, ...]
    asked: dict[int, Asked] = field(default_factory=dict)

    def class_of(self, node: int) -> int:
        """The class of a node; 0: it cannot be reached."""
        known = self.table.class_of
        return known.item(node) if node < known.size else 0


class ClassTable:
    """p_k for every class k of every epoch in use."""

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        self._context = context
        self._routing = routing
        self._epochs: dict[int, EpochClasses] = {}

    def epoch(self, epoch: int) -> EpochClasses:
        """The classes of an epoch in use.

        Those of a new epoch begin with what is known of their nodes.
        """
        known = self._epochs.get(epoch)
        if known is None:
            table = self._context.tables.get(epoch)
            assert table is not None
            known = self._made(table)
            if self._epochs:
                self._carry(self._epochs[max(self._epochs)], known)
            self._epochs[epoch] = known
        return known

    def held(self) -> list[EpochClasses]:
        """The classes of all epochs in use."""
        return [self.epoch(number) for number in sorted(self._context.tables.epochs())]

    def epoch_changed(self) -> None:
        """Forgets the epochs that are no longer in use."""
        self.held()
        for number in self._epochs.keys() - self._context.tables.epochs():
            for entry in self._epochs.pop(number).entries:
                if entry != LOCAL_INTERFACE:
                    self._routing.free_entry(entry)

    def asked(self, epoch: int, number: int) -> Asked:
        """The entries for messages whose source is of a class."""
        classes = self.epoch(epoch)
        found = classes.asked.get(number)
        if found is None:
            interfaces = {
                classes.entries[below]: child
                for child in sorted(classes.table.behind)
                for below in numbers_in(classes.table.below(number, child))
            }
            found = classes.asked[number] = Asked(interfaces, frozenset([LOCAL_INTERFACE, *interfaces]))
        return found

    def advertised(self, issuer: int, predicate: Predicate) -> None:
        """Widens the entries of a node's class, in every epoch: its predicate belongs to no epoch."""
        for classes in self.held():
            number = classes.class_of(issuer)
            if number and classes.parents[number] != LOCAL_INTERFACE:
                self._routing.widen(classes.entries[number], predicate)

    def widen(self, epoch: int, number: int, predicate: Predicate) -> None:
        """Widens the entry of a class, and those that hold its nodes in newer epochs."""
        own = self.epoch(epoch)
        self._routing.widen(own.entries[number], predicate)
        for classes in self.held():
            if classes.table.epoch > epoch:
                for other in _shared(own, classes, number):
                    self._routing.widen(classes.entries[other], predicate)

    def _made(self, table: EpochTable) -> EpochClasses:
        branches = table.classes
        entries, parents, nodes = [LOCAL_INTERFACE], [LOCAL_INTERFACE], [0] * (len(branches) + 1)
        for branch in branches:
            own = branch.parent == LOCAL_INTERFACE
            entries.append(LOCAL_INTERFACE if own else self._routing.new_entry())
            parents.append(branch.parent)
        for number, node in zip(*np.unique(table.class_of, return_index=True), strict=True):
            nodes[int(number)] = int(node)
        return EpochClasses(table, tuple(entries), tuple(parents), tuple(nodes))

    def _carry(self, before: EpochClasses, now: EpochClasses) -> None:
        """Widens the entries of a new epoch by those that held their nodes before."""
        for number, entry in enumerate(before.entries):
            known = self._routing.get(entry)
            if known and entry != LOCAL_INTERFACE:
                for other in _shared(before, now, number):
                    self._routing.widen(now.entries[other], known)


def _shared(own: EpochClasses, other: EpochClasses, number: int) -> Iterator[int]:
    """The classes of another epoch that have nodes of a class, without that of the router itself."""
    size = min(own.table.class_of.size, other.table.class_of.size)
    for found in np.unique(other.table.class_of[:size][own.table.class_of[:size] == number]).tolist():
        if found and other.parents[found] != LOCAL_INTERFACE:
            yield found
