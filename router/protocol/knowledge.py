"""What update replies do to the routing table: p_i <- p_UR, where that loses nobody (section 3.5.2)."""

from __future__ import annotations

from router.predicates.covering.builder import PredicateBuilder
from router.predicates.model import Predicate
from router.protocol.broadcast import BroadcastTables
from router.protocol.options import RouterOptions
from router.protocol.routing import RoutingTable


class Knowledge:
    """Takes URs into the table, and remembers how old what it says is.

    By default p_i is replaced by the UR and the RAs heard on i since the SR left, unless

    - the UR is PARTIAL: whoever is missing from it must not be lost;
    - another epoch's table has come in: p_i may know nodes behind i that the SR's tree hangs elsewhere.

    Then p_i is only widened. `strict_paper` replaces p_i by the UR alone, PARTIAL or not.
    """

    def __init__(self, options: RouterOptions, tables: BroadcastTables, routing: RoutingTable) -> None:
        self._options = options
        self._tables = tables
        self._routing = routing
        # interface -> (epoch of the SR, when the UR came).
        self._learnt: dict[int, tuple[int, float]] = {}

    def told(self, reply: Predicate, heard: Predicate) -> PredicateBuilder:
        """What a UR says: `reply`, and the RAs `heard` on its interface since the SR left."""
        told = PredicateBuilder(reply)
        if not self._options.strict_paper:
            told.add(heard)
        return told

    def learn(self, interface: int, epoch: int, told: PredicateBuilder, partial: bool, now: float) -> bool:
        """Takes a UR about all nodes that lie behind `interface` in `epoch`.

        Args:
            told: what it says (`told`); it must not be changed afterwards.

        Returns:
            True if it replaced p_i.
        """
        widens = partial and not self._options.strict_paper
        if widens or not self.current(epoch):
            self._routing.widen(interface, told.predicate)
            return False
        self._routing.replace(interface, told)
        self._learnt[interface] = epoch, now
        return True

    def current(self, epoch: int) -> bool:
        """Whether trees of `epoch` are the only ones that RAs can have come on lately."""
        current = self._tables.current
        return current is not None and current.epoch == epoch == self._tables.newest

    def fresh(self, interface: int, epoch: int, now: float) -> bool:
        """Whether p_i was learnt whole, in `epoch`, within the freshness limit."""
        learnt = self._learnt.get(interface)
        return learnt is not None and learnt[0] == epoch and now - learnt[1] <= self._options.ur_freshness

    def forget(self) -> None:
        """The epoch has changed: nothing learnt before answers for its trees."""
        self._learnt.clear()
