"""The intake of a router: what a frame passes before a part of the core takes it.

There are four ways for a frame to reach a router: down its issuer's tree (checked against the reverse path,
protocol paper, section 3.1), back up that tree, from a neighbour on no tree, and from the controller.
`router.protocol.core.dispatch` says for each frame type which way the frame comes, and of which classes its
body is. Behind that check are the bounds on the predicate of an RA or UR. A frame that the check drops
charges nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from router.predicates import Predicate
from router.protocol.bounds import Bounds
from router.protocol.broadcast import Branch
from router.protocol.context import Context, Part
from router.protocol.counters import Drop
from router.protocol.events import Action, ControllerFrame, FrameReceived
from router.protocol.routing import RoutingTable
from router.wire.frames import EncodedPredicate, Frame, FrameType
from router.wire.header import DecodeError

_TYPES = frozenset(map(int, FrameType))
#: Types between a router and its controller: such a frame of a router, or of another type of the controller,
#: is not what its sender may send.
_CONTROL = frozenset({FrameType.HELLO, FrameType.TABLE, FrameType.COMMIT, FrameType.ACK})


_PREDICATES = (Predicate, EncodedPredicate)


@dataclass(frozen=True, slots=True)
class FrameRule:
    """The rule by which a router takes frames of one type.

    Attributes:
        place: how such a frame reaches a router: the method of `Intake` that finds the place of a frame of a
            neighbour, or why it is dropped. None: the controller sends it.
        bodies: the classes of the body.
        handle: takes a place, the frame, and the time; in `dispatch.FRAMES`, the part of the router before
            them. The place is this router's part in the frame's tree, the interface on which a neighbour's
            frame came in, or the node that a frame of the controller names.
        changes_deadlines: whether `next_deadline` of a part may be another after such a frame.
    """

    place: Callable[[Intake, int, Frame], Branch | int | Drop] | None
    bodies: tuple[type, ...]
    handle: Callable[..., list[Action]]
    changes_deadlines: bool = True


def on_tree(
    handle: Callable[[Any, Branch, Frame, float], list[Action]], *bodies: type, changes_deadlines: bool = True
) -> FrameRule:
    """The rule of a frame that travels down its issuer's tree."""
    return FrameRule(Intake.accepted_branch, bodies, handle, changes_deadlines)


def from_neighbour(handle: Callable[[Any, int, Frame, float], list[Action]], *bodies: type) -> FrameRule:
    """The rule of a frame that a neighbour sent, on no tree or against a tree."""
    return FrameRule(Intake.interface, bodies, handle)


def from_controller(handle: Callable[[Any, int, Frame, float], list[Action]], *bodies: type) -> FrameRule:
    """The rule of a frame of the controller."""
    return FrameRule(None, bodies, handle)


class Intake(Part):
    """Checks the frames that come in, and passes them to the parts that take them.

    Args:
        context: of the router.
        routing: the routing table, whose size is bounded.
        rules: by type; a frame of a type without a rule is dropped.
    """

    __slots__ = ("_bounds", "_context", "_of_predicates", "_routing", "_rules", "_table_filters", "_tables")

    def __init__(self, context: Context, routing: RoutingTable, rules: Mapping[FrameType, FrameRule]) -> None:
        self._context = context
        self._tables = context.tables
        self._routing = routing
        self._table_filters = context.options.table_filters
        content = context.content
        self._of_predicates = frozenset({content.advertisement_frame, content.reply_frame})
        self._bounds = Bounds(context.options, content)
        #: By frame type: a list, since an enumeration computes its hash in Python.
        self._rules = [
            rules.get(FrameType(kind)) if kind in _TYPES else None for kind in range(max(_TYPES) + 1)
        ]

    def epoch_changed(self, now: float, first: bool) -> list[Action]:  # noqa: ARG002
        current = self._context.tables.current
        if current is not None:
            self._bounds.neighbours.keep_only(current.interfaces.__contains__)
            self._bounds.issuers.keep_only(current.branch)
        return []

    def frame_received(self, event: FrameReceived, now: float) -> list[Action]:
        """A whole frame came in from the router of node `event.sender`."""
        sender, frame = event.sender, event.frame
        admitted = self.admitted(sender, frame)
        if isinstance(admitted, Drop):
            return self._context.drop(admitted)
        rule, place = admitted
        if rule.changes_deadlines:
            self._context.parts.changed = True
        if frame.type in self._of_predicates and isinstance(frame.body, _PREDICATES):
            within = self._within_bounds(sender, frame, now)
            return [] if within is None else rule.handle(place, within, now)
        return rule.handle(place, frame, now)

    def _within_bounds(self, sender: int, frame: Frame, now: float) -> Frame | None:
        """An RA or UR with its predicate, widened to the bounds; None: its body is malformed, and counted."""
        counters = self._context.counters
        try:
            full = self._routing.is_full(self._table_filters)
            predicate, widened = self._bounds.within(sender, frame, full, now)
        except DecodeError as error:
            counters.dropped[error.reason.value] += 1
            return None
        if widened:
            counters.predicates_widened += 1
            # The body that the issuer signed goes on, and each router widens it by itself.
            signed = bool(frame.signature)
            return replace(frame, body=predicate, received=frame.received if signed else None, widened=signed)
        return replace(frame, body=predicate) if isinstance(frame.body, EncodedPredicate) else frame

    def admitted(self, sender: int, frame: Frame) -> tuple[FrameRule, Branch | int] | Drop:
        """The rule of a frame of the router of node `sender` and its place, or why it is dropped."""
        rule = self._rules[frame.type]
        if rule is None or rule.place is None:
            return Drop.NOT_FROM_CONTROLLER if frame.type in _CONTROL else Drop.NOT_HANDLED
        place = rule.place(self, sender, frame)
        if isinstance(place, Drop):
            return place
        return (rule, place) if isinstance(frame.body, rule.bodies) else Drop.MALFORMED

    def controller_frame(self, event: ControllerFrame, now: float) -> list[Action]:
        """A whole frame came in from the controller."""
        frame = event.frame
        rule = self._rules[frame.type]
        if rule is None or rule.place is not None:
            return self._context.drop(Drop.NOT_FROM_ROUTER)
        if frame.issuer != self._context.node:
            return self._context.drop(Drop.NOT_ADDRESSED)
        if not isinstance(frame.body, rule.bodies):
            return self._context.drop(Drop.MALFORMED)
        return rule.handle(frame.issuer, frame, now)

    def interface(self, sender: int, frame: Frame) -> int | Drop:
        """The interface that leads to `sender` in the epoch of its frame; a Drop is no interface's number."""
        table = self._tables.get(frame.epoch)
        if table is None:
            return Drop.UNKNOWN_EPOCH
        return table.interfaces.get(sender, Drop.UNKNOWN_NEIGHBOUR)

    def accepted_branch(self, sender: int, frame: Frame) -> Branch | Drop:
        """This router's part in the frame's tree, or why the frame must be dropped (section 3.1)."""
        table = self._tables.get(frame.epoch)
        if table is None:
            return Drop.UNKNOWN_EPOCH
        branch = table.branch(frame.issuer)
        if branch is not None and branch.sender == sender:
            return branch if frame.hop_limit >= 1 else Drop.HOP_LIMIT
        if sender not in table.interfaces:
            return Drop.UNKNOWN_NEIGHBOUR
        if frame.issuer == self._context.node:
            return Drop.OWN_FRAME
        return Drop.NO_TREE if branch is None else Drop.REVERSE_PATH

    def branch_or_child(self, sender: int, frame: Frame) -> Branch | int | Drop:
        """As `accepted_branch`; of a frame that comes against its tree, the interface of the neighbour."""
        place = self.accepted_branch(sender, frame)
        against = place is Drop.OWN_FRAME or place is Drop.REVERSE_PATH
        return self.interface(sender, frame) if against else place
