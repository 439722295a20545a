"""The checks that a frame of another router passes before a part of the core takes it.

The order of the checks: where the frame comes from (the reverse path check of section 3.1 among them), the
bounds on its predicate. A frame that a check drops charges nobody.
"""

from __future__ import annotations

from dataclasses import replace

from router.predicates.model import Predicate
from router.protocol.bounds import Bounds
from router.protocol.context import Context
from router.protocol.counters import Drop
from router.protocol.events import Action, FrameReceived
from router.protocol.frame_table import FrameTable
from router.protocol.parts import Part
from router.protocol.routing import RoutingTable
from router.wire.frames import EncodedPredicate, Frame
from router.wire.header import DecodeError


class Intake(Part):
    """Checks the frames of other routers, and passes them to the parts that take them.

    Args:
        context: of the router.
        table: the parts by type of frame.
        routing: the routing table, whose size is bounded.
    """

    def __init__(self, context: Context, table: FrameTable, routing: RoutingTable) -> None:
        self._context = context
        self._table = table
        self._routing = routing
        self._table_filters = context.options.table_filters
        self._content = content = context.content
        self._types = frozenset({content.advertisement_frame, content.reply_frame})
        self.bounds = Bounds(context.options.limits, content)

    def epoch_changed(self, now: float, first: bool) -> list[Action]:  # noqa: ARG002
        current = self._context.tables.current
        if current is not None:
            self.bounds.neighbours.keep_only(current.interfaces.__contains__)
            self.bounds.issuers.keep_only(current.branch)
        return []

    def frame_received(self, event: FrameReceived, now: float) -> list[Action]:
        """Handles a frame of another router."""
        sender, frame = event.sender, event.frame
        if frame.type in self._types and isinstance(frame.body, Predicate | EncodedPredicate):
            return self._predicate_received(sender, frame, now)
        return self._table.from_router(event, now)

    def _predicate_received(self, sender: int, frame: Frame, now: float) -> list[Action]:
        """Handles an RA or UR, whose predicate is widened to the bounds."""
        context = self._context
        admitted = self._table.admitted(sender, frame)
        if isinstance(admitted, Drop):
            return context.drop(admitted)
        try:
            full = self._routing.is_full(self._table_filters)
            predicate, widened = self.bounds.within(sender, frame, full, now)
        except DecodeError as error:
            context.counters.dropped[error.reason.value] += 1
            return []
        if widened:
            context.counters.predicates_widened += 1
            # A signature stands for the body of its issuer: each router widens that by itself.
            frame = replace(frame, body=predicate, received=frame.received if frame.signature else None)
        elif isinstance(frame.body, EncodedPredicate):
            frame = replace(frame, body=predicate)
        handle, place = admitted
        return handle(place, frame, now)
