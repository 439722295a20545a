"""Grouping the destinations of a frame by next hop (slides on routing, part III: DRP)."""

from __future__ import annotations

from collections.abc import Iterable

from router.protocol.broadcast import Branch
from router.protocol.context import Context
from router.protocol.counters import Drop


def partition(
    context: Context, branch: Branch, epoch: int, destinations: Iterable[int]
) -> dict[int, tuple[int, ...]]:
    """Groups destinations by the interface that leads to them; this router is left out.

    The next hop to a node x is the parent on T_x. A destination to which no child of the branch leads, which
    no router with the same tables sends, is dropped and counted.

    Args:
        branch: this router's part in the tree of the frame.
        epoch: of the frame, which the router has tables of.
        destinations: nodes, in ascending order.

    Returns:
        Interface -> its destinations, in ascending order.
    """
    table = context.tables.get(epoch)
    assert table is not None
    parts: dict[int, list[int]] = {}
    for node in destinations:
        if node == context.node:
            continue
        towards = table.branch(node)
        if towards is None or towards.parent not in branch.on_tree:
            context.counters.drop(Drop.DESTINATION)
        else:
            parts.setdefault(towards.parent, []).append(node)
    return {interface: tuple(nodes) for interface, nodes in parts.items()}
