"""Rules by which update replies change the routing table: p_i <- p_UR, if no receiver is lost (section
3.5.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.model import Predicate
from router.protocol.broadcast import Branch
from router.protocol.context import Context
from router.protocol.routing import RoutingTable
from router.wire.header import LOCAL_INTERFACE

#: The nodes behind an interface by the parts that a scheme keeps apart: part -> predicate of its nodes. A
#: scheme that keeps nothing apart has one part, of the number of the interface.
Report = Mapping[int, PredicateBuilder]
#: The content of a UR before its filters are put in order: a node of each class that it keeps apart, or None,
#: with the predicate of the nodes of the class, or of all.
Answer = Mapping[int | None, PredicateBuilder]
#: Takes the epoch of an SR, an interface, and the whole answer from behind it; the report is not changed.
Restrict = Callable[[int, int, Report], None]


class ReplyRules:
    """Takes URs into the table, and remembers how old what it says is.

    p_i is replaced by the UR and the RAs that came in on i since the SR left, unless

    - the UR is PARTIAL: whoever is missing from it must not be lost;
    - another epoch's table has come in: p_i may know nodes behind i that the SR's tree reaches elsewhere.

    Then p_i is only widened.
    """

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        self.content = context.content
        self.options = context.options
        self.tables = context.tables
        self._routing = routing
        # Part -> (epoch of the SR, when the UR came).
        self._applied: dict[int, tuple[int, float]] = {}

    def place(self, epoch: int, branch: Branch, interface: int, issuer: int) -> tuple[int, int] | None:  # noqa: ARG002
        """The child and the part of its report that an RA belongs to; None: to no report of this branch.

        Args:
            epoch, branch: of the SR.
            interface, issuer: the RA came in on this interface, from this router.
        """
        return (interface, interface) if interface in branch.on_tree else None

    def read(self, epoch: int, branch: Branch, child: int, reply: Predicate) -> Report:  # noqa: ARG002
        """The content of a UR from a child, for an SR of this epoch and branch."""
        return {child: self.content.builder(reply)}

    def with_advertised(self, report: Report, ras_since_request: Report) -> Report:
        """The content of a UR with the RAs since the SR left: all that is behind an interface."""
        whole = {part: known.copy() for part, known in report.items()}
        for part, advertised in ras_since_request.items():
            whole.setdefault(part, self.content.builder()).unite(advertised)
        return whole

    def apply_reply(self, interface: int, epoch: int, report: Report, partial: bool, now: float) -> bool:
        """Takes a UR about nodes that lie behind `interface` in `epoch`: all, or whole parts of them.

        Args:
            report: what it says (`with_advertised`); it must not be changed afterwards.

        Returns:
            True if it replaced what the table had.
        """
        reported = report[interface]
        if self.widens(partial) or not self.current(epoch):
            self._routing.widen(interface, reported.predicate)
            return False
        self._routing.replace(interface, reported)
        self._applied[interface] = epoch, now
        return True

    def assembled(self, epoch: int, branch: Branch, reports: Iterable[Report]) -> Answer:  # noqa: ARG002
        """The content of this router's UR: p0, and what is behind its children."""
        answer = self._routing.copy_of(LOCAL_INTERFACE)
        for report in reports:
            for reported in report.values():
                answer.unite(reported)
        return {None: answer}

    def predicate_of(self, answer: Answer) -> Predicate:
        """The predicate of this router's UR."""
        return answer[None].predicate

    def learns(self, branch: Branch, child: int) -> bool:
        """Whether a UR from a child for another's SR serves this router (section 3.5.4)."""
        return self.options.ur_reuse and child in branch.reusable

    def answer(self, epoch: int, branch: Branch, child: int, now: float) -> Report | None:
        """The table's answer to an SR in the place of a child, if it is good enough."""
        if not self.learns(branch, child) or not self.fresh(child, epoch, now):
            return None
        return {child: self._routing.copy_of(child)}

    def forget_dead_ends(self, children: Iterable[int]) -> None:
        """Drops what older epochs left for interfaces behind which nobody is: no UR comes from there."""
        self._routing.keep_only(children)

    def widens(self, partial: bool) -> bool:
        """Whether a UR only widens p_i, whatever its epoch."""
        return partial

    def current(self, epoch: int) -> bool:
        """Whether trees of `epoch` are the only ones that RAs can have come on lately."""
        current = self.tables.current
        return current is not None and current.epoch == epoch == self.tables.newest

    def fresh(self, part: int, epoch: int, now: float) -> bool:
        """Whether a part was learnt whole, in `epoch`, within the freshness limit."""
        applied = self._applied.get(part)
        return applied is not None and applied[0] == epoch and now - applied[1] <= self.options.ur_freshness_s

    def forget(self) -> None:
        """The epoch has changed: nothing learnt before answers for its trees."""
        self._applied.clear()
