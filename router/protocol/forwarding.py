"""The state of a router that decides about ordinary messages, for compiled code."""

from __future__ import annotations

from dataclasses import dataclass

from router.protocol.broadcast import BroadcastTables
from router.protocol.delivered import Delivered
from router.protocol.parts import MessageCounts, Part
from router.protocol.routing import RoutingTable
from router.protocol.scheme import Scheme
from router.protocol.service import DecidingPredicates


@dataclass(frozen=True, slots=True)
class ForwardingState:
    """The parts of a router's state.

    Attributes:
        node: the router's.
        tables: broadcast tables by epoch.
        routing: predicates by entry.
        scheme: says which entry decides about which interface.
        counts: messages by interface, which a part counts; None: no part does.
        applications: the predicates that decide which applications get a message; None: the service decides.
        delivered: the messages that were delivered last.
        messages: while they are busy, the core takes all messages, in their order.
    """

    node: int
    tables: BroadcastTables
    routing: RoutingTable
    scheme: Scheme
    counts: MessageCounts | None
    applications: DecidingPredicates | None
    delivered: Delivered
    messages: Part
