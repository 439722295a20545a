"""The state that the parts of a router share."""

from __future__ import annotations

import random
from collections.abc import Iterable

from router.content.base import Content
from router.protocol.broadcast import Branch, BroadcastTables, EpochTable
from router.protocol.counters import Counters, Drop
from router.protocol.events import Action
from router.protocol.options import RouterOptions
from router.protocol.parts import Parts
from router.wire.frames import COUNTER_BITS, Body, Flags, Frame, FrameType
from router.wire.header import LOCAL_INTERFACE

_CUT_OFF = Branch(LOCAL_INTERFACE, frozenset(), 0, frozenset(), frozenset())


class Context:
    """The identity of a router, its options, broadcast tables, counters and randomness.

    Attributes:
        node: the router's node identifier.
        incarnation: the high half of its sequence numbers.
        rng: source of jitter.
        content: what predicates and messages are.
        tables: the broadcast tables by epoch.
        parts: all parts of the router: a part tells the others through it.
    """

    __slots__ = (
        *("_own", "_own_of", "content", "counters", "incarnation"),
        *("node", "options", "parts", "rng", "tables"),
    )

    def __init__(
        self,
        node: int,
        options: RouterOptions,
        incarnation: int,
        rng: random.Random,
        content: Content,
    ) -> None:
        self.node = node
        self.options = options
        self.incarnation = incarnation
        self.rng = rng
        self.content = content
        self.counters = Counters()
        self.tables = BroadcastTables(node)
        self.parts = Parts()
        #: The own branch, and the table that has it.
        self._own = _CUT_OFF
        self._own_of: EpochTable | None = None

    @property
    def epoch(self) -> int:
        """The epoch in which this router originates; 0 before the first."""
        current = self.tables.current
        return current.epoch if current is not None else 0

    def own_branch(self) -> Branch:
        """The root's part in this router's own tree; no children if the router is cut off from everyone."""
        current = self.tables.current
        if current is not self._own_of:
            own = current.branch(self.node) if current is not None else None
            self._own, self._own_of = own if own is not None else _CUT_OFF, current
        return self._own

    def sequence_number(self, count: int) -> int:
        """The `count`-th number of this incarnation, from 1."""
        return self.incarnation << COUNTER_BITS | count

    def issued(
        self,
        frame_type: FrameType,
        seq: int,
        body: Body,
        flags: Flags = Flags.NONE,
    ) -> Frame:
        """A frame of this router, in the current epoch."""
        return Frame(frame_type, self.node, seq, self.epoch, self.options.hop_limit, body, flags)

    def partition(
        self, branch: Branch, epoch: int, destinations: Iterable[int]
    ) -> dict[int, tuple[int, ...]]:
        """Groups destinations by the interface that leads to them (slides on routing, part III: DRP).

        The next hop to a node x is the parent on T_x. This router is left out; a destination to which no
        child of the branch leads, which no router with the same tables sends, is dropped and counted.

        Args:
            branch: this router's part in the tree of the frame.
            epoch: of the frame, which the router has tables of.
            destinations: nodes, in ascending order.

        Returns:
            Interface -> its destinations, in ascending order.
        """
        table = self.tables.get(epoch)
        assert table is not None
        parts: dict[int, list[int]] = {}
        for node in destinations:
            if node == self.node:
                continue
            towards = table.branch(node)
            if towards is None or towards.parent not in branch.on_tree:
                self.counters.drop(Drop.DESTINATION)
            else:
                parts.setdefault(towards.parent, []).append(node)
        return {interface: tuple(nodes) for interface, nodes in parts.items()}

    def drop(self, reason: Drop) -> list[Action]:
        """Counts what was dropped; no actions."""
        self.counters.drop(reason)
        return []
