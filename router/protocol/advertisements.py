"""RA ingress filtering: which receiver advertisements go on, and what they leave in the routing table.

Protocol paper, section 3.5.1, and ARCHITECTURE.md, "Where we differ".
"""

from __future__ import annotations

from typing import Protocol

from router.predicates import algebra
from router.predicates.model import NOTHING, Predicate
from router.protocol.broadcast import Branch
from router.protocol.routing import RoutingTable


class IngressFilter(Protocol):
    """Decides about one RA, and updates the routing table with it."""

    def accept(self, epoch: int, branch: Branch, predicate: Predicate, spreads: bool) -> bool:
        """Takes an RA that came in on `branch.parent` in `epoch`.

        Args:
            spreads: it may be forwarded; False when its hop limit ends here.

        Returns:
            False if the RA is covered and must go no further.
        """

    def retire(self, epochs: frozenset[int]) -> None:
        """Only these epochs are still in use."""


class PaperFilter:
    """Section 3.5.1 to the letter: an RA is dropped when p_i covers it."""

    def __init__(self, routing: RoutingTable) -> None:
        self._routing = routing

    def accept(self, epoch: int, branch: Branch, predicate: Predicate, spreads: bool) -> bool:  # noqa: ARG002
        return self._routing.widen(branch.parent, predicate)

    def retire(self, epochs: frozenset[int]) -> None:
        """p_i belongs to no epoch."""


class ClassFilter:
    """An RA is dropped when RAs of its own class cover it.

    A class holds the issuers whose RAs come in on the same interface and whose trees hang the same
    nodes below this router. Whatever an earlier RA of the class told those nodes, it told all of
    them. p_i itself is the disjunction over all classes; it may cover an RA that still has to go on.
    """

    def __init__(self, routing: RoutingTable) -> None:
        self._routing = routing
        # Class numbers are the controller's, per router and epoch: epoch -> (interface, class) -> predicate.
        self._advertised: dict[int, dict[tuple[int, int], Predicate]] = {}

    def accept(self, epoch: int, branch: Branch, predicate: Predicate, spreads: bool) -> bool:
        advertised = self._advertised.setdefault(epoch, {})
        key = branch.parent, branch.downstream
        known = advertised.get(key, NOTHING)
        if algebra.covers(known, predicate):
            return False
        # What did not reach the nodes below must not stop a later RA that can.
        if spreads:
            advertised[key] = algebra.disjoin(known, predicate)
        self._routing.widen(branch.parent, predicate)
        return True

    def retire(self, epochs: frozenset[int]) -> None:
        for epoch in self._advertised.keys() - epochs:
            del self._advertised[epoch]
