"""The broadcast layer as a router sees it: B(s, i), by epoch.

Protocol paper, section 3.1. The controller computes the trees; a router holds its own part of each,
for every epoch in which frames may still be under way. A frame is forwarded on the tables of the
epoch that it was sent in, so no mixture of two epochs' trees ever carries it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from router.wire.addresses import LOCAL_INTERFACE, MAX_INTERFACE
from router.wire.frames import BroadcastTable, TreeEntry

#: A router refuses a table whose epoch is farther ahead of the newest known one. The controller counts epochs
#: one by one; a router that accepted a very high number would ignore all tables of the controller.
EPOCH_LEAD = 1 << 16


@dataclass(frozen=True, slots=True)
class Branch:
    """This router's part in one tree: B(s, `parent`) is `children`.

    See `frames.TreeEntry`.

    `subtree_id` is `TreeEntry.downstream`: two sources with the same parent have the same one exactly when
    their trees hold the same nodes below this router. `on_tree` are those children beyond which the tree goes
    on: they alone answer an SR.
    """

    parent: int
    children: frozenset[int]
    subtree_id: int
    reusable: frozenset[int]
    on_tree: frozenset[int]


@dataclass(frozen=True, slots=True)
class EpochTable:
    """This router's part in every tree of one epoch.

    Attributes:
        neighbours: interface -> neighbouring node.
        interfaces: neighbouring node -> interface.
        branches: source -> branch; a source that cannot be reached has none.
        nodes_beyond: interface -> how many sources have it as their parent: the nodes beyond the interface on
            this router's own tree.
    """

    epoch: int
    neighbours: Mapping[int, int]
    interfaces: Mapping[int, int]
    branches: Mapping[int, Branch]
    nodes_beyond: Mapping[int, int]

    def depth_below(self, branch: Branch) -> int:
        """A bound on how many hops any node of a tree is below this router.

        Subpaths agree, so whatever a tree holds beyond a child is beyond it on this router's own tree as
        well; and a path crosses each node once.
        """
        return max((self.nodes_beyond.get(child, 0) for child in branch.on_tree), default=0)


def epoch_table(node: int, epoch: int, table: BroadcastTable) -> EpochTable:
    """Checks a table that the controller sent to `node`, and indexes it.

    Raises:
        ValueError: the table contradicts itself; the message names the field.
    """
    neighbours = dict(table.neighbours)
    interfaces = {neighbour: interface for interface, neighbour in table.neighbours}
    if not len(neighbours) == len(interfaces) == len(table.neighbours):
        raise ValueError("neighbours: an interface or a node is named twice")
    for interface in neighbours:
        if not 1 <= interface <= MAX_INTERFACE:
            raise ValueError(f"neighbours: interface {interface} is outside 1..{MAX_INTERFACE}")
    if node in interfaces:
        raise ValueError(f"neighbours: node {node} is its own neighbour")
    branches: dict[int, Branch] = {}
    # Most sources share their branch with others: each is checked and kept once.
    known: dict[tuple[int, tuple[int, ...], int, tuple[int, ...], tuple[int, ...]], Branch] = {}
    for entry in table.entries:
        source = entry.source
        if source in branches:
            raise ValueError(f"entries: source {source} is named twice")
        if (source == node) != (entry.parent == LOCAL_INTERFACE):
            raise ValueError(f"source {source}: parent {entry.parent} at node {node}")
        key = entry.parent, entry.children, entry.downstream, entry.reusable, entry.off_tree
        branch = known.get(key)
        if branch is None:
            branch = known[key] = _branch(entry, neighbours)
        branches[source] = branch
    nodes_beyond = Counter(branch.parent for branch in branches.values())
    return EpochTable(epoch, neighbours, interfaces, branches, nodes_beyond)


def _branch(entry: TreeEntry, neighbours: Mapping[int, int]) -> Branch:
    """Checks an entry against the interfaces. Raises ValueError."""
    children, off_tree = frozenset(entry.children), frozenset(entry.off_tree)
    reusable = frozenset(entry.reusable)
    if not children <= neighbours.keys():
        raise ValueError(f"source {entry.source}: a child is not among the interfaces")
    if entry.parent in children:
        raise ValueError(f"source {entry.source}: interface {entry.parent} is both parent and child")
    if entry.parent != LOCAL_INTERFACE and entry.parent not in neighbours:
        raise ValueError(f"source {entry.source}: parent {entry.parent} is not among the interfaces")
    if not reusable | off_tree <= children:
        raise ValueError(f"source {entry.source}: reusable or off_tree names no child")
    return Branch(entry.parent, children, entry.downstream, reusable, children - off_tree)


class BroadcastTables:
    """The tables of every epoch that is in use, and which epoch this router originates in."""

    def __init__(self, node: int) -> None:
        self._node = node
        self._tables: dict[int, EpochTable] = {}
        self._current: EpochTable | None = None
        self._oldest = 0

    @property
    def current(self) -> EpochTable | None:
        """The table of the newest committed epoch; None before the first."""
        return self._current

    @property
    def newest(self) -> int:
        """The newest epoch of which there is a table, committed or not; 0 before the first."""
        return max(self._tables, default=0)

    def interfaces_in_use(self) -> frozenset[int]:
        """The interfaces of the current table and of every newer one; empty before the first epoch.

        Frames of a newer epoch arrive before its COMMIT, and the COMMIT of an epoch that was abandoned may
        come in between: what was learnt about an interface of the newer epoch must outlive that COMMIT.
        """
        if self._current is None:
            return frozenset()
        tables = [table for epoch, table in self._tables.items() if epoch >= self._current.epoch]
        return frozenset(interface for table in tables for interface in table.neighbours)

    def get(self, epoch: int) -> EpochTable | None:
        return self._tables.get(epoch)

    def epochs(self) -> frozenset[int]:
        return frozenset(self._tables)

    def store(self, epoch: int, table: BroadcastTable) -> None:
        """Takes the table of one epoch.

        A second one for the same epoch, or a retired one, changes nothing.

        Raises:
            ValueError: the table contradicts itself.
        """
        if epoch not in self._tables and epoch >= self._oldest:
            self._tables[epoch] = epoch_table(self._node, epoch, table)

    def commit(self, epoch: int, oldest_epoch: int) -> bool:
        """Makes `epoch` current if it is newer, and retires what is older than `oldest_epoch`.

        Returns:
            True if the current epoch changed.

        Raises:
            KeyError: there is no table of `epoch`, and a newer one is not current either.
        """
        if self._current is not None and epoch <= self._current.epoch:
            return False
        self._current = self._tables[epoch]
        self._oldest = max(self._oldest, min(oldest_epoch, epoch))
        self._tables = {kept: table for kept, table in self._tables.items() if kept >= self._oldest}
        return True
