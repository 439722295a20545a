"""The parts of a router that work on large changes of the routing table, turn by turn."""

from __future__ import annotations

from router.protocol.events import Action
from router.protocol.parts import Part
from router.protocol.routing import RoutingTable


class MatcherFeed(Part):
    """Works off what `RoutingTable.match` could not give to the engine in the turn of a message.

    The router is idle meanwhile: it owes the network nothing.

    Args:
        routing: the table, which has the engine.
    """

    def __init__(self, routing: RoutingTable) -> None:
        self._routing = routing

    @property
    def busy(self) -> bool:
        return self._routing.syncing

    def step(self, now: float) -> list[Action]:  # noqa: ARG002
        self._routing.sync()
        return []


class OverSimplification(Part):
    """Over-simplifies p_i that have grown beyond `max_filters` (section 3.5.6).

    Messages are forwarded by the exact p_i meanwhile, so the router is idle.
    """

    def __init__(self, routing: RoutingTable) -> None:
        self._routing = routing

    @property
    def busy(self) -> bool:
        return self._routing.widening

    def step(self, now: float) -> list[Action]:  # noqa: ARG002
        self._routing.widen_further()
        return []
