"""Which part of a router takes a frame, and the checks that a frame passes before.

There are three ways for a frame to reach a router: down its issuer's tree (checked against the reverse path,
protocol paper, section 3.1), from a neighbour over one hop, and from the controller.
`router.protocol.core.dispatch` says for each frame type which way the frame comes, and of which classes its
body is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from router.protocol.broadcast import Branch, BroadcastTables
from router.protocol.counters import Counters, Drop
from router.protocol.events import Action, ControllerFrame, FrameReceived
from router.wire.frames import Frame, FrameType

_TYPES = frozenset(map(int, FrameType))
#: Types between a router and its controller: such a frame of a router, or of another type of the controller,
#: is not what its sender may send.
_CONTROL = frozenset({FrameType.HELLO, FrameType.TABLE, FrameType.COMMIT, FrameType.ACK})


class Way(Enum):
    """How a frame reaches a router."""

    TREE = auto()
    NEIGHBOUR = auto()
    CONTROLLER = auto()


@dataclass(frozen=True, slots=True)
class FrameRule:
    """The rule by which a router takes frames of one type.

    Attributes:
        bodies: the classes of the body.
        handle: takes a place, the frame, and the time; in `dispatch.FRAMES`, the part of the router before
            them. The place is this router's part in the frame's tree, the interface on which a neighbour's
            frame came in, or the node that a frame of the controller names.
    """

    way: Way
    bodies: tuple[type, ...]
    handle: Callable[..., list[Action]]


def on_tree(handle: Callable[[Any, Branch, Frame, float], list[Action]], *bodies: type) -> FrameRule:
    """The rule of a frame that travels down its issuer's tree."""
    return FrameRule(Way.TREE, bodies, handle)


def from_neighbour(handle: Callable[[Any, int, Frame, float], list[Action]], *bodies: type) -> FrameRule:
    """The rule of a frame that a neighbour made, on no tree or against a tree."""
    return FrameRule(Way.NEIGHBOUR, bodies, handle)


def from_controller(handle: Callable[[Any, int, Frame, float], list[Action]], *bodies: type) -> FrameRule:
    """The rule of a frame of the controller."""
    return FrameRule(Way.CONTROLLER, bodies, handle)


class FrameTable:
    """The frames that one router takes.

    Args:
        node: the router's.
        tables: its broadcast tables.
        counters: what is dropped is counted there.
        rules: by type; a frame of a type without a rule is dropped.
    """

    def __init__(
        self, node: int, tables: BroadcastTables, counters: Counters, rules: Mapping[FrameType, FrameRule]
    ) -> None:
        self._node = node
        self._tables = tables
        self._counters = counters
        #: By frame type: a list, since an enumeration computes its hash in Python.
        self._rules = [
            rules.get(FrameType(kind)) if kind in _TYPES else None for kind in range(max(_TYPES) + 1)
        ]

    def from_router(self, event: FrameReceived, now: float) -> list[Action]:
        """A whole frame came in from the router of node `event.sender`."""
        admitted = self.admitted(event.sender, event.frame)
        if isinstance(admitted, Drop):
            return self._drop(admitted)
        handle, place = admitted
        return handle(place, event.frame, now)

    def admitted(self, sender: int, frame: Frame) -> tuple[Callable[..., list[Action]], Branch | int] | Drop:
        """The handler of a frame of the router of node `sender` and its place, or why it is dropped."""
        rule = self._rules[frame.type]
        place: Branch | int | Drop
        if rule is None:
            return Drop.NOT_FROM_CONTROLLER if frame.type in _CONTROL else Drop.NOT_HANDLED
        if rule.way is Way.TREE:
            place = self._accepted_branch(sender, frame)
        elif rule.way is Way.NEIGHBOUR:
            place = self.interface(sender, frame.epoch)
        else:
            return Drop.NOT_FROM_CONTROLLER
        if isinstance(place, Drop):
            return place
        return (rule.handle, place) if isinstance(frame.body, rule.bodies) else Drop.MALFORMED

    def from_controller(self, event: ControllerFrame, now: float) -> list[Action]:
        """A whole frame came in from the controller."""
        frame = event.frame
        rule = self._rules[frame.type]
        if rule is None or rule.way is not Way.CONTROLLER:
            return self._drop(Drop.NOT_FROM_ROUTER)
        if frame.issuer != self._node:
            return self._drop(Drop.NOT_ADDRESSED)
        if not isinstance(frame.body, rule.bodies):
            return self._drop(Drop.MALFORMED)
        return rule.handle(frame.issuer, frame, now)

    def interface(self, sender: int, epoch: int) -> int | Drop:
        """The interface that leads to `sender` in an epoch; a Drop is no interface's number."""
        table = self._tables.get(epoch)
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
