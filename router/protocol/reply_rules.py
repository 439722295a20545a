"""Rules by which update replies change the routing table: p_i <- p_UR, if no receiver is lost (section
3.5.2)."""

from __future__ import annotations

from collections.abc import Iterable

from router.predicates.covering.builder import PredicateBuilder
from router.predicates.model import Predicate
from router.protocol.context import Context
from router.protocol.routing import RoutingTable
from router.wire.addresses import LOCAL_INTERFACE


class ReplyRules:
    """Takes URs into the table, and remembers how old what it says is.

    p_i is replaced by the UR and the RAs that came in on i since the SR left, unless

    - the UR is PARTIAL: whoever is missing from it must not be lost;
    - another epoch's table has come in: p_i may know nodes behind i that the SR's tree reaches elsewhere.

    Then p_i is only widened.
    """

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        self.content = context.content
        self._options = context.options
        self._tables = context.tables
        self._routing = routing
        # interface -> (epoch of the SR, when the UR came).
        self._applied: dict[int, tuple[int, float]] = {}

    def reported(self, reply: Predicate, ras_since_request: Predicate) -> PredicateBuilder:
        """The content of a UR on the nodes behind its interface.

        Args:
            reply: the predicate of the UR.
            ras_since_request: the RAs that came in on its interface since the SR left.
        """
        reported = self.content.builder(reply)
        reported.add(ras_since_request)
        return reported

    def apply_reply(
        self, interface: int, epoch: int, reported: PredicateBuilder, partial: bool, now: float
    ) -> bool:
        """Takes a UR about all nodes that lie behind `interface` in `epoch`.

        Args:
            reported: what it says (`reported`); it must not be changed afterwards.

        Returns:
            True if it replaced p_i.
        """
        if self.widens(partial) or not self.current(epoch):
            self._routing.widen(interface, reported.predicate)
            return False
        self._routing.replace(interface, reported)
        self._applied[interface] = epoch, now
        return True

    def assembled(
        self, replies: Iterable[Predicate], ras_since_request: Iterable[PredicateBuilder]
    ) -> Predicate:
        """The content of this router's UR: p0, the URs of its children, and the RAs received from them
        since."""
        answer = self._routing.copy_of(LOCAL_INTERFACE)
        for reply in replies:
            answer.add(reply)
        for advertised in ras_since_request:
            answer.add(advertised.predicate)
        return answer.predicate

    def widens(self, partial: bool) -> bool:
        """Whether a UR only widens p_i, whatever its epoch."""
        return partial

    def current(self, epoch: int) -> bool:
        """Whether trees of `epoch` are the only ones that RAs can have come on lately."""
        current = self._tables.current
        return current is not None and current.epoch == epoch == self._tables.newest

    def fresh(self, interface: int, epoch: int, now: float) -> bool:
        """Whether p_i was learnt whole, in `epoch`, within the freshness limit."""
        applied = self._applied.get(interface)
        return (
            applied is not None and applied[0] == epoch and now - applied[1] <= self._options.ur_freshness_s
        )

    def forget(self) -> None:
        """The epoch has changed: nothing learnt before answers for its trees."""
        self._applied.clear()
