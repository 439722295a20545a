"""Which part of a router takes a frame, and the checks that a frame passes before.

There are three ways for a frame to reach a router: down its issuer's tree (checked against the reverse path,
protocol paper, section 3.1), from a neighbour over one hop, and from the controller. A part says for each
frame type that it takes which way the frame comes, and of which classes its body is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from router.protocol.broadcast import Branch, BroadcastTables
from router.protocol.counters import Counters, Drop
from router.protocol.events import Action, FrameReceived
from router.wire.frames import Frame, FrameType

#: Types between a router and its controller: such a frame of a router, or of another type of the controller,
#: is not what its sender may send.
_CONTROL = frozenset({FrameType.HELLO, FrameType.TABLE, FrameType.COMMIT, FrameType.ACK})


@dataclass(frozen=True, slots=True)
class OnTree:
    """A frame that travels down its issuer's tree.

    Attributes:
        bodies: the classes of its body.
        handle: takes this router's part in the tree of the frame, the frame, and the time.
    """

    bodies: tuple[type, ...]
    handle: Callable[[Branch, Frame, float], list[Action]]


@dataclass(frozen=True, slots=True)
class FromNeighbour:
    """A frame that a neighbour made, on no tree or against one.

    Attributes:
        bodies: the classes of its body.
        handle: takes the interface that it came in on, the frame, and the time.
    """

    bodies: tuple[type, ...]
    handle: Callable[[int, Frame, float], list[Action]]


@dataclass(frozen=True, slots=True)
class FromController:
    """A frame of the controller.

    Attributes:
        bodies: the classes of its body.
        handle: takes the frame and the time.
    """

    bodies: tuple[type, ...]
    handle: Callable[[Frame, float], list[Action]]


FrameHandler = OnTree | FromNeighbour | FromController
#: Takes a place (`FrameTable.admitted`), the frame, and the time.
Handle = Callable[[Any, Frame, float], list[Action]]


class FrameTable:
    """The frames that one router takes.

    Args:
        node: the router's.
        tables: its broadcast tables.
        counters: what is dropped is counted there.
    """

    def __init__(self, node: int, tables: BroadcastTables, counters: Counters) -> None:
        self._node = node
        self._tables = tables
        self._counters = counters
        self._handlers: dict[FrameType, FrameHandler] = {}
        #: By frame type: a list, since an enumeration computes its hash in Python.
        self._on_tree: list[OnTree | None] = [None] * (max(FrameType) + 1)

    def add(self, handlers: Mapping[FrameType, FrameHandler]) -> None:
        """Adds the frames of a part.

        Raises:
            ValueError: another part takes a type already.
        """
        taken = self._handlers.keys() & handlers.keys()
        if taken:
            raise ValueError(f"two parts of a router take {min(taken).name} frames")
        self._handlers.update(handlers)
        for kind, each in handlers.items():
            self._on_tree[kind] = each if isinstance(each, OnTree) else None

    def from_router(self, event: FrameReceived, now: float) -> list[Action]:
        """A whole frame came in from the router of node `event.sender`."""
        frame = event.frame
        handler = self._on_tree[frame.type]
        if handler is not None:
            # As `admitted` has it, with fewer questions: most frames travel down a tree.
            branch = self._accepted_branch(event.sender, frame)
            if isinstance(branch, Branch) and isinstance(frame.body, handler.bodies):
                return handler.handle(branch, frame, now)
        admitted = self.admitted(event.sender, frame)
        if isinstance(admitted, Drop):
            return self._drop(admitted)
        handle, place = admitted
        return handle(place, frame, now)

    def admitted(self, sender: int, frame: Frame) -> tuple[Handle, Branch | int] | Drop:
        """Who takes the frame of the router of node `sender`, and with which place, or why it is dropped.

        The place is this router's part in the frame's tree, or the interface that the frame came in on.
        """
        handler = self._handlers.get(frame.type)
        place: Branch | int | Drop
        if isinstance(handler, OnTree):
            place = self._accepted_branch(sender, frame)
        elif isinstance(handler, FromNeighbour):
            place = self._interface(sender, frame)
        elif handler is not None or frame.type in _CONTROL:
            return Drop.NOT_FROM_CONTROLLER
        else:
            return Drop.NOT_HANDLED
        if isinstance(place, Drop):
            return place
        return (handler.handle, place) if isinstance(frame.body, handler.bodies) else Drop.MALFORMED

    def from_controller(self, frame: Frame, now: float) -> list[Action]:
        """A whole frame came in from the controller."""
        handler = self._handlers.get(frame.type)
        if not isinstance(handler, FromController):
            return self._drop(Drop.NOT_FROM_ROUTER)
        if frame.issuer != self._node:
            return self._drop(Drop.NOT_ADDRESSED)
        if not isinstance(frame.body, handler.bodies):
            return self._drop(Drop.MALFORMED)
        return handler.handle(frame, now)

    def _interface(self, sender: int, frame: Frame) -> int | Drop:
        """The interface that leads to `sender` in the frame's epoch; a Drop is no interface's number."""
        table = self._tables.get(frame.epoch)
        if table is None:
            return Drop.UNKNOWN_EPOCH
        return table.interfaces.get(sender, Drop.UNKNOWN_NEIGHBOUR)

    def _accepted_branch(self, sender: int, frame: Frame) -> Branch | Drop:
        """This router's part in the frame's tree, or why the frame must be dropped (section 3.1)."""
        table = self._tables.get(frame.epoch)
        if table is None:
            return Drop.UNKNOWN_EPOCH
        interface = table.interfaces.get(sender)
        if interface is None:
            return Drop.UNKNOWN_NEIGHBOUR
        if frame.issuer == self._node:
            return Drop.OWN_FRAME
        branch = table.branch(frame.issuer)
        if branch is None:
            return Drop.NO_TREE
        if branch.parent != interface:
            return Drop.REVERSE_PATH
        if frame.hop_limit < 1:
            return Drop.HOP_LIMIT
        return branch

    def _drop(self, reason: Drop) -> list[Action]:
        self._counters.drop(reason)
        return []
