"""RA ingress filters: which RAs go on to the routers below (protocol paper, section 3.5.1).

The paper's own, and one that loses no receiver (docs/adr/0002-ingress-filter-by-subtree.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from router.content.base import Content
from router.predicates.covering.bitset import Bits
from router.predicates.model import Predicate
from router.protocol.broadcast import Branch, BroadcastTables
from router.protocol.pull.reply_rules import Report
from router.protocol.routing import RoutingTable


class CoveringFilter:
    """Section 3.5.1 to the letter: an RA is dropped when p_i covers it."""

    __slots__ = ("__weakref__", "_routing", "_widened")

    def __init__(self, routing: RoutingTable) -> None:
        self._routing = routing
        #: Interfaces whose p_i claims what the routers beyond do not have.
        self._widened: set[int] = set()

    def accept_widened(self, branch: Branch, predicate: Predicate) -> None:
        """Takes an RA into the table that goes on narrower, as its issuer signed it."""
        self._routing.widen(branch.parent, predicate)
        self._widened.add(branch.parent)

    def accept(self, branch: Branch, predicate: Predicate, hops: int) -> bool:  # noqa: ARG002
        """Takes an RA into the table; `Intake` has checked that the RA came in on `branch.parent`.

        Args:
            hops: how many hops below this router it may still go; never more than the subtree can be deep.

        Returns:
            False if the RA is covered and must go no further.
        """
        return self._routing.widen(branch.parent, predicate) or branch.parent in self._widened

    def restrict_to(self, epoch: int, interface: int, report: Report) -> None:
        """A UR to another router, about trees of `epoch`, says what is behind `interface`.

        Args:
            report: is not changed.
        """


class SubtreeFilter(CoveringFilter):
    """An RA is dropped when RAs of its own class cover it that the nodes below this router still know of.

    A class holds the issuers whose RAs come in on the same interface and whose trees have the same nodes
    below this router. F(class) is a predicate that every node below has in its table for the interface that
    leads to this router, or that is on its way there. p_i itself is the disjunction over all classes. It may
    cover an RA that still has to go on, and the table of a router says nothing of the tables of others: every
    RA goes into p_i, and SRs of this router leave F unchanged.

    **Hop limits.** An RA reaches the nodes that are as many hops below this router as it has hops left. F is
    therefore kept by hops: F(h) holds the RAs that had h hops left or more, and an RA with h hops left is
    compared with F(h). More hops than the subtree can be deep count as its depth (`Branch.depth`),
    so that hop limits that reach everywhere make no difference.

    **Signatures.** A signed RA that exceeds a bound of this router goes on as its issuer signed it, and only
    this router takes it widened: it goes into p_i, leaves F as it is, and always goes on.

    *Then every node at most h hops below this router w has F(h) in its table, or on its way there.* By
    induction on h: a child c of w takes each RA of F(h) with h - 1 hops left or more. It widens its table; it
    passes the RA on, or its own F(h - 1) covers the RA. The same sources are in one class at c, since the
    nodes below w, and so below c, are the same. A node at most h hops below w is c, or at most h - 1 hops
    below a child c. If w drops an RA with h hops left, the nodes that the RA could have reached know F(h),
    which covers it. What follows holds for each F(h): the RAs that stand in for another one have as many
    hops left as it has, and a UR from which a node is missing, because the SR had too few hops, is PARTIAL.

    **Trimming.** Let u, below this router w, send an SR through w. When it is answered in full, u replaces
    what it knew by its UR, and F may then claim too much: if r narrows p0 from p to q, u trims, and r widens
    back to p, an F that still covers p would drop an RA that u needs. So w intersects F with each whole
    UR that it takes from a child c for another's SR (`restrict_to`), and a router that collects a UR
    adds to it every RA that comes in on c in the meantime (`replies`).

    *Then nothing is lost*, if links do not lose; that they may reorder, docs/adr/0032 adds. Let the path from
    u to r be u = x0, x1, ..., xk = r, and let A_j be the time when x_j sends its UR towards u. What r
    advertised before A_k its UR says.
    Take an RA q that r issues after A_k. Either it reaches u (which widens its table, and adds to the UR the
    RAs that came in since its SR), or some x_j drops it:

    - before the UR of x_(j+1) came in. Then q left x_(j+1) before A_(j+1). Go down the path to the first x_m
      that took q after the UR of x_(m+1); there is one, as r sent q after its UR. It had not answered yet, so
      its UR contains q, and so does u's.
    - after that UR, before A_j: the UR of x_j contains q.
    - after A_j: F(x_j) covers q. F lay within the UR of x_(j+1) and the RAs added to it, all of which
      x_j's UR contains, and has grown by RAs that x_j took before A_j (its UR contains them) or passed on
      towards u behind its UR, and those u learns of, by induction on j.

    A router that answers for c from its own table bounds F by that answer in the same way; whatever F
    of a router further down covers has reached, or is on its way to, the one that answered. A PARTIAL UR
    trims no table, so it bounds nothing. The intersection need only be bounded from above: too small an F
    costs RAs, never receivers.

    **Size.** A UR that this router asked for replaces p_i, and leaves F as it is: F can grow while p_i does
    not. With more than `most` filters F is forgotten, and later RAs go on as if none had come before.

    Args:
        tables: their branches keep F: the controller numbers the classes of each router and epoch.
        most: filters of F over all its classes.
    """

    __slots__ = ("_limit", "_most", "_pool", "_tables")

    def __init__(self, routing: RoutingTable, content: Content, tables: BroadcastTables, most: int) -> None:
        super().__init__(routing)
        self._limit = most
        self._pool = content.pool
        self._tables = tables
        #: How many filters all F have at most.
        self._most = 0
        self._pool.register(self)
        routing.ingress_is_full = self.has_as_many

    @property
    def members(self) -> Bits:
        """All filters of all F."""
        found: Bits = 0
        for _, branch in self.branches():
            for known in branch.advertised.values():
                found |= known
        return found

    def branches(self) -> Iterator[tuple[int, Branch]]:
        """The classes that have F, of all epochs in use, each with its epoch."""
        for table in self._tables.held():
            for branch in table.classes.made:
                if branch is not None and branch.advertised:
                    yield table.epoch, branch

    def has_as_many(self, filters: int) -> bool:
        """Whether all F together have so many filters."""
        if self._most < filters:
            return False
        self._most = self.members.bit_count()
        return self._most >= filters

    def accept(self, branch: Branch, predicate: Predicate, hops: int) -> bool:
        self._routing.widen(branch.parent, predicate)
        return self.widened(branch, predicate, hops)

    def widened(self, branch: Branch, predicate: Predicate, hops: int) -> bool:
        """Widens F by an RA; returns whether F did not cover it."""
        if self._most >= self._limit and self.has_as_many(self._limit):
            for _, each in self.branches():
                each.advertised.clear()
            self._most = 0
        numbers = self._pool.numbers(predicate)
        self._most += len(numbers)
        # An entry holds what is in the entries of more hops as well.
        levels = branch.advertised
        known = levels.get(hops)
        if known is None:
            known = levels[min(above)] if (above := [level for level in levels if level > hops]) else 0
        widened = self._pool.add(known, numbers)
        if widened == known:
            return False
        for level, before in levels.items():
            if level < hops:
                levels[level] = widened if before == known else self._pool.add(before, numbers)
        levels[hops] = widened
        return True

    def restrict_to(self, epoch: int, interface: int, report: Report) -> None:  # noqa: ARG002
        """Intersects F with the report in every class of the interface: any may hold the SR's issuer."""
        bound = report[interface].members
        for _, branch in self.branches():
            if branch.parent == interface:
                self._restrict(branch, bound)

    def _restrict(self, branch: Branch, bound: Bits) -> None:
        for hops, known in branch.advertised.items():
            if not self._pool.covers_all(bound, known):
                branch.advertised[hops] = restricted = self._pool.restricted(known, bound)
                self._most += restricted.bit_count()
