"""The common part of the schemes with identified RAs: a predicate for each node that issued one.

An identified RA (flag IDENTIFIED) travels down the whole tree of its issuer, since no other RA covers it; it
replaces the issuer's earlier one by epoch and sequence number, and withdraws the predicate if it has no
filter.

**No receiver is lost.** An RA of r goes from r to s on the path of T_r, which is the path from s to r on T_s.
Hence, when s has taken the RA, every router on the path from s to r has, and a message that s sends
afterwards meets it at each of them. Predicates belong to nodes and not to interfaces: a new epoch changes
what a router makes of them (`epoch_changed`), and none is lost with a tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from router.predicates import Predicate
from router.predicates.covering.algebra import PredicateBuilder
from router.protocol.advertising import Advertising
from router.protocol.broadcast import Branch
from router.protocol.context import Context, Part
from router.protocol.counters import Drop
from router.protocol.events import Action
from router.protocol.routing import RoutingTable
from router.protocol.schemes import Row, Scheme, TablePart
from router.wire.frames import Flags, Frame
from router.wire.header import LOCAL_INTERFACE


class Identified(Scheme):
    """A routing scheme whose tables are made of the predicates of nodes.

    Attributes:
        known: issuer -> the predicate of its last RA, which may be empty.
    """

    ra_flags = Flags.IDENTIFIED
    sends_requests = False
    stays_exact = "whose tables are made of the predicates of nodes"

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        super().__init__(context, routing)
        self.known: dict[int, Predicate] = {}
        #: The same, as the pool has them: it keeps their filters.
        self.held: dict[int, PredicateBuilder] = {}
        #: Issuer -> epoch and number of its last RA. Both only grow: a restart makes a new epoch. A forged
        #: number shuts its issuer out until the next epoch, in which all advertise.
        self._last: dict[int, tuple[int, int]] = {}
        self._advertising = Advertising(context, routing, self)
        self._announced = False
        self._joined = 0

    def parts(self) -> Sequence[Part]:
        return (self._advertising,)

    def worth_advertising(self, filters: int) -> bool:
        """An empty predicate withdraws an earlier one, perhaps of the time before a restart.

        In every epoch: the RA that withdrew it in the last one may have been lost.
        """
        self._announced = self._announced or filters > 0
        return self._announced or self._joined > 1

    def advertised(self, branch: Branch, frame: Frame) -> Drop | None:  # noqa: ARG002
        """Takes what the issuer advertised, unless a newer RA of it came before."""
        if not frame.flags & Flags.IDENTIFIED:
            return Drop.RA_UNIDENTIFIED
        issuer, issued = frame.issuer, (frame.epoch, frame.seq)
        if issued <= self._last.get(issuer, (0, -1)):
            return Drop.RA_OLD
        self._last[issuer] = issued
        was = self.known.get(issuer, self.context.content.nothing)
        predicate = self.known[issuer] = self.context.content.predicate_in(frame)
        held = self.context.content.builder(predicate)
        self.routing.of_nodes += len(held) - len(self.held.get(issuer, ()))
        self.held[issuer] = held
        if was != predicate:
            self.predicate_changed(issuer, was, predicate)
        return None

    def epoch_changed(self, now: float, first: bool) -> list[Action]:  # noqa: ARG002
        tables = self.context.tables
        if first:
            self._joined = self.context.epoch
        # A node that has no tree cannot be reached. It advertises when it has one again; until the epochs in
        # which it had one are over, no frame that is under way needs its predicate.
        for issuer in [each for each in self.known if not tables.reaches(each)]:
            gone = self.known.pop(issuer)
            self.routing.of_nodes -= len(self.held.pop(issuer))
            del self._last[issuer]
            if gone:
                self.predicate_changed(issuer, gone, self.context.content.nothing)
        return []

    def rib_rows(self, part: TablePart) -> Iterator[Row]:
        """A row for p0, and one for each node with a predicate."""
        if self.routing.local:
            yield Row(LOCAL_INTERFACE, "", self.routing.local, TablePart.LOCAL)
        sources = (self.context.node,) if part is TablePart.FORWARDING else None
        for issuer, held in sorted(self.held.items()):
            predicate = held.predicate
            if predicate:
                yield Row(None, f"destination {issuer}", predicate, part, sources)

    def predicate_changed(self, issuer: int, was: Predicate, now: Predicate) -> None:
        """The predicate of a node is `now`, and was `was`; either may be empty."""
