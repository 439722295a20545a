"""The broadcast layer as a router sees it: B(s, i), by epoch.

Protocol paper, section 3.1. The controller computes the trees; a router holds its own part of each,
for every epoch in which frames may still be under way. A frame is forwarded on the tables of the
epoch that it was sent in, so no mixture of two epochs' trees ever carries it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain

import numpy as np
import numpy.typing as npt

from router.predicates.covering.bitset import Bits
from router.wire.frames import BroadcastTable, value
from router.wire.header import LOCAL_INTERFACE, MAX_INTERFACE
from router.wire.tree_classes import CHILD_MAX, TreeClasses

#: A router refuses a table whose epoch is farther ahead of the newest known one. The controller counts epochs
#: one by one; a router that accepted a very high number would ignore all tables of the controller.
EPOCH_LEAD = 1 << 16


@value
class Branch:
    """This router's part in the trees of one class: B(s, `parent`) is `children`.

    See `frames.TreeClass`.

    `subtree_id` is the number of the class: two sources with the same parent have the same one exactly when
    their trees hold the same nodes below this router. `on_tree` are those children beyond which the tree goes
    on: they alone answer an SR. `depth` is a bound on how many hops any node of a tree is below this router:
    subpaths agree, so whatever a tree holds beyond a child is beyond it on this router's own tree as well;
    and a path crosses each node once. `sender` is the node beyond `parent`; None: there is none. `advertised`
    is kept by the RA ingress filter: F of the class by hops (`router.protocol.advertising`).
    """

    parent: int
    children: frozenset[int]
    subtree_id: int
    reusable: frozenset[int]
    on_tree: frozenset[int]
    depth: int = 0
    sender: int | None = field(default=None, compare=False)
    advertised: dict[int, Bits] = field(default_factory=dict, init=False, repr=False, compare=False)


class Branches:
    """The branches of a table's classes, made when they are first asked for.

    Args:
        classes: the table's.
        nodes_beyond: interface -> how many sources have it as their parent: the nodes beyond the interface on
            this router's own tree.
        neighbours: interface -> neighbouring node.

    Attributes:
        made: the branches by their place; None: `numbered` has not yet made it.
    """

    __slots__ = ("_beyond", "_classes", "_neighbours", "made")

    def __init__(
        self, classes: TreeClasses, nodes_beyond: Mapping[int, int], neighbours: Mapping[int, int]
    ) -> None:
        self._classes = classes
        self._beyond = nodes_beyond
        self._neighbours = neighbours
        self.made: list[Branch | None] = [None] * len(classes)

    def __len__(self) -> int:
        return len(self.made)

    def __iter__(self) -> Iterator[Branch]:
        return map(self.numbered, range(1, len(self) + 1))

    def numbered(self, number: int) -> Branch:
        """The branch of the class with this number, from 1."""
        return self.made[number - 1] or self._make(number)

    def _make(self, number: int) -> Branch:
        each = self._classes[number - 1]
        children = _shared(each.children)
        on_tree = children - frozenset(each.off_tree) if each.off_tree else children
        depth = max((self._beyond.get(child, 0) for child in on_tree), default=0)
        reusable, sender = _shared(each.reusable), self._neighbours.get(each.parent)
        made = self.made[number - 1] = Branch(each.parent, children, number, reusable, on_tree, depth, sender)
        return made


#: A router has few interfaces: its classes, and those of other routers of the process, share sets of them.
_shared = lru_cache(maxsize=65_536)(frozenset[int])


@dataclass(frozen=True, slots=True)
class EpochTable:
    """This router's part in every tree of one epoch.

    Attributes:
        neighbours: interface -> neighbouring node.
        interfaces: neighbouring node -> interface.
        classes: the branch of each class; class 1 comes first.
        class_of: class of each source, by source, of type `frames.CLASS_DTYPE`; 0: the source cannot be
            reached, as a source beyond the end cannot.
        subtrees: for each class, the classes of the nodes in this router's subtree, as bits (1 << class);
            None: the controller sent none.
        behind: with subtrees: interface -> the classes of the nodes reached through it, as bits.
    """

    epoch: int
    neighbours: Mapping[int, int]
    interfaces: Mapping[int, int]
    classes: Branches
    class_of: npt.NDArray[np.uint16] = field(compare=False)
    subtrees: tuple[Bits, ...] | None
    behind: Mapping[int, Bits]

    def below(self, number: int, child: int) -> Bits:
        """The classes beyond a child on the trees of class `number`, as bits; none for class 0."""
        assert self.subtrees is not None
        return self.subtrees[number - 1] & self.behind.get(child, 0) if number else 0

    def branch(self, source: int) -> Branch | None:
        """The router's part in the tree of `source`; None if the source cannot be reached."""
        class_of = self.class_of
        number: int = class_of.item(source) if source < class_of.size else 0
        return self.classes.made[number - 1] or self.classes.numbered(number) if number else None


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
    _check_classes(table.classes, frozenset(neighbours))
    branches = Branches(table.classes, _nodes_beyond(node, table), neighbours)
    subtrees = None if table.subtrees is None else _rows_as_bits(table.subtrees)
    behind: dict[int, Bits] = {}
    for number, parent in enumerate(table.classes.parents.tolist() if subtrees else (), 1):
        if parent != LOCAL_INTERFACE:
            behind[parent] = behind.get(parent, 0) | 1 << number
    return EpochTable(epoch, neighbours, interfaces, branches, table.class_of, subtrees, behind)


def _rows_as_bits(subtrees: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    packed = np.packbits(subtrees, axis=1, bitorder="little")
    return tuple([int.from_bytes(row.tobytes(), "little") << 1 for row in packed])


def _check_classes(classes: TreeClasses, interfaces: frozenset[int]) -> None:
    """Checks the classes against the interfaces. Raises ValueError."""
    known = np.array(sorted(interfaces), np.uint16)
    children = classes.children & CHILD_MAX
    owner = np.repeat(np.arange(len(classes)), classes.first[1:] - classes.first[:-1])
    for wrong, what in (
        (owner[~np.isin(children, known)], "a child is not among the interfaces"),
        (owner[classes.parents[owner] == children], "an interface is both parent and child"),
        (
            np.flatnonzero((classes.parents != LOCAL_INTERFACE) & ~np.isin(classes.parents, known)),
            "the parent is not among the interfaces",
        ),
    ):
        if len(wrong):
            raise ValueError(f"class {wrong[0] + 1}: {what}")


def _nodes_beyond(node: int, table: BroadcastTable) -> dict[int, int]:
    """Interface -> number of sources whose parent it is; checks the node's own class. Raises ValueError."""
    class_of, parents = table.class_of, table.classes.parents
    sources = np.bincount(class_of, minlength=len(parents) + 1)[1:]
    if len(sources) > len(parents):
        raise ValueError(f"class_of: class {len(sources)}; expected at most {len(parents)}")
    own = int(class_of[node]) if node < class_of.size else 0
    if own and (parents[own - 1] != LOCAL_INTERFACE or sources[own - 1] != 1):
        raise ValueError(
            f"class {own}, of node {node}: parent {parents[own - 1]}, {sources[own - 1]} sources"
        )
    beyond = np.bincount(parents, weights=sources, minlength=1).astype(np.int64)
    if beyond[LOCAL_INTERFACE] != (own > 0):
        raise ValueError(f"classes: parent {LOCAL_INTERFACE} for a source other than node {node}")
    return {interface: count for interface, count in enumerate(beyond.tolist()) if count}


class BroadcastTables:
    """The tables of every epoch that is in use, and which epoch this router originates in.

    Attributes:
        changes: how often the set of tables has changed.
        current: the table of the newest committed epoch; None before the first.
        need_subtrees: a table must say which nodes are in the subtrees of this router.
        neighbours: interface -> neighbouring node, in any epoch in use; an interface never leads to another
            node.
    """

    __slots__ = ("_node", "_oldest", "_tables", "changes", "current", "get", "need_subtrees", "neighbours")

    def __init__(self, node: int) -> None:
        self.need_subtrees = False
        self._node = node
        self._tables: dict[int, EpochTable] = {}
        #: The table of an epoch, if there is one.
        self.get = self._tables.get
        self.current: EpochTable | None = None
        self._oldest = self.changes = 0
        self.neighbours: Mapping[int, int] = {}

    @property
    def newest(self) -> int:
        """The newest epoch of which there is a table, committed or not; 0 before the first."""
        return max(self._tables, default=0)

    def interfaces_in_use(self) -> frozenset[int]:
        """The interfaces of the current table and of every newer one; empty before the first epoch.

        Frames of a newer epoch arrive before its COMMIT, and the COMMIT of an epoch that was abandoned may
        come in between: what was learnt about an interface of the newer epoch must outlive that COMMIT.
        """
        if self.current is None:
            return frozenset()
        tables = [table for epoch, table in self._tables.items() if epoch >= self.current.epoch]
        return frozenset(interface for table in tables for interface in table.neighbours)

    def reaches(self, node: int) -> bool:
        """Whether the node has a tree in the current epoch or in a newer one."""
        oldest = 0 if self.current is None else self.current.epoch
        return any(table.branch(node) for epoch, table in self._tables.items() if epoch >= oldest)

    def held(self) -> Iterable[EpochTable]:
        """The tables of all epochs in use."""
        return self._tables.values()

    def epochs(self) -> frozenset[int]:
        return frozenset(self._tables)

    def store(self, epoch: int, table: BroadcastTable) -> None:
        """Takes the table of one epoch.

        A second one for the same epoch, or a retired one, changes nothing.

        Raises:
            ValueError: the table contradicts itself.
        """
        if epoch not in self._tables and epoch >= self._oldest:
            if self.need_subtrees and table.subtrees is None:
                raise ValueError("subtrees: missing; the routing scheme needs them")
            self._tables[epoch] = epoch_table(self._node, epoch, table)
            self._changed()

    def commit(self, epoch: int, oldest_epoch: int) -> bool:
        """Makes `epoch` current if it is newer, and retires what is older than `oldest_epoch`.

        Returns:
            True if the current epoch changed.

        Raises:
            KeyError: there is no table of `epoch`, and a newer one is not current either.
        """
        if self.current is not None and epoch <= self.current.epoch:
            return False
        self.current = self._tables[epoch]
        self._oldest = max(self._oldest, min(oldest_epoch, epoch))
        for retired in [each for each in self._tables if each < self._oldest]:
            del self._tables[retired]
        self._changed()
        return True

    def _changed(self) -> None:
        self.changes += 1
        self.neighbours = dict(chain.from_iterable(each.neighbours.items() for each in self.held()))
