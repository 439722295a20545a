"""Broadcast tables written and read source by source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from router.wire.frames import BroadcastTable
from router.wire.tree_classes import CLASS_DTYPE, OFF_TREE, REUSABLE, TreeClass, TreeClasses


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A router's part in the tree of one source; see `TreeClass`.

    Attributes:
        downstream: equal numbers say that the router's subtree holds the same nodes.
    """

    source: int
    parent: int
    children: tuple[int, ...]
    downstream: int
    reusable: tuple[int, ...] = ()
    off_tree: tuple[int, ...] = ()


def tree_classes_of(classes: Iterable[TreeClass]) -> TreeClasses:
    parents, first, children = [], [0], []
    for each in classes:
        parents.append(each.parent)
        children += [
            child | REUSABLE * (child in each.reusable) | OFF_TREE * (child in each.off_tree)
            for child in each.children
        ]
        first.append(len(children))
    return TreeClasses(
        np.array(parents, np.uint16), np.array(first, np.uint32), np.array(children, np.uint16)
    )


def table_of(neighbours: tuple[tuple[int, int], ...], entries: Iterable[TreeEntry]) -> BroadcastTable:
    """The table with the classes of `entries`, in order of their first source."""
    listed = sorted(entries, key=lambda entry: entry.source)
    numbers: dict[tuple[TreeClass, int], int] = {}
    class_of = np.zeros(listed[-1].source + 1 if listed else 0, dtype=CLASS_DTYPE)
    for entry in listed:
        assert class_of[entry.source] == 0, f"source {entry.source} twice"
        own = TreeClass(entry.parent, entry.children, entry.reusable, entry.off_tree)
        class_of[entry.source] = numbers.setdefault((own, entry.downstream), len(numbers) + 1)
    return BroadcastTable(neighbours, tree_classes_of(own for own, _ in numbers), class_of)


def sources_of(table: BroadcastTable) -> list[int]:
    """The sources that the router can be reached from, in ascending order."""
    found: list[int] = np.flatnonzero(table.class_of).tolist()
    return found


def with_subtrees(table: BroadcastTable, below: Mapping[int, frozenset[int]]) -> BroadcastTable:
    """The table with the classes of the nodes in the router's subtrees.

    Args:
        below: source -> the nodes of the router's subtree of the source's tree.
    """
    sources, number = sources_of(table), len(table.classes)
    subtrees = np.zeros((number, number), dtype=np.bool_)
    for a in sources:
        for b in sources:
            subtrees[table.class_of[a] - 1, table.class_of[b] - 1] = b in below[a]
    return replace(table, subtrees=subtrees)


def entries_of(table: BroadcastTable) -> tuple[TreeEntry, ...]:
    """The entries of a table by source; `downstream` is the number of the class."""
    return tuple(
        TreeEntry(source, own.parent, own.children, number, own.reusable, own.off_tree)
        for source in sources_of(table)
        for number in [int(table.class_of[source])]
        for own in [table.classes[number - 1]]
    )
