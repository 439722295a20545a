"""Per-interface forwarding, as in CBCB: `[routing] scheme = "pif"`, and `"pif-strict"` to the letter.

The table holds a predicate for each interface: what the nodes beyond it ask for, whatever the source of a
message. RAs widen it, SRs and URs replace it (protocol paper, sections 3.3 to 3.5). The rules of `pif` lose
no receiver.

Content-based routing on an acyclic overlay with covering (A. Carzaniga, D. Rosenblum, A. Wolf, "Design and
evaluation of a wide-area event notification service", ACM TOCS 19(3), 2001) is `pif` on the layer
`spanning-tree`, with periodic SRs in place of unsubscriptions. `"topics"` is a baseline between flooding and
content-based routing, as brokers that bridges join have topics: a filter subscribes to one, and the host
drops what its predicate does not select.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from router.predicates import Filter, Message, Operator, Predicate
from router.protocol.advertising import Advertising, CoveringFilter, SubtreeFilter
from router.protocol.broadcast import Branch, EpochTable
from router.protocol.context import Context, Part
from router.protocol.counters import Drop
from router.protocol.events import Action
from router.protocol.pull.pull import pull_routing
from router.protocol.pull.requests import ReplyRules
from router.protocol.routing import Report, RoutingTable
from router.protocol.schemes import Outputs, Row, Scheme, outputs_of, rows_by_interface, with_local
from router.wire.frames import EncodedMessage, Flags, Frame
from router.wire.header import LOCAL_INTERFACE


class PerInterface(Scheme):
    """Per-interface forwarding: B(source, i) intersected with F_C."""

    __slots__ = ("_advertising", "_ingress", "_pull")

    ra_flags = Flags.NONE
    #: Which RAs go on.
    ingress: ClassVar[type[CoveringFilter]] = SubtreeFilter

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        super().__init__(context, routing)
        self._ingress = self.ingress(context, routing)
        self._pull = pull_routing(context, self.reply_rules(), self._ingress.restrict_to)
        self._advertising = Advertising(context, routing, self)

    def reply_rules(self) -> ReplyRules:
        """The effect of URs on the table."""
        return ReplyRules(self.context, self.routing)

    def parts(self) -> Sequence[Part]:
        return self._advertising, self._pull

    def worth_advertising(self, filters: int) -> bool:
        """An RA can only widen tables: an empty one tells nothing."""
        return filters > 0

    def advertised(self, branch: Branch, frame: Frame) -> Drop | None:
        """Takes an RA into the table; returns `RA_COVERED` if the ingress filter covers the RA."""
        predicate = self.context.content.predicate_in(frame)
        changed = self.widen(branch.parent, frame.issuer, predicate)
        self._pull.advertised(branch.parent, frame.issuer, predicate)
        accepted = self._ingress.accept(branch, frame, predicate, changed)
        return None if accepted else Drop.RA_COVERED

    def widen(self, interface: int, issuer: int, predicate: Predicate) -> bool:  # noqa: ARG002
        """Widens the table by an RA; returns whether p_i changed."""
        return self.routing.widen(interface, predicate)

    def outputs(self, branch: Branch, frame: Frame) -> Outputs:
        # The table of frames has checked the class of the body.
        body: Message | EncodedMessage = frame.body  # type: ignore[assignment]
        return outputs_of(self.routing.match(body, among=with_local(branch.children)))

    def deciding_entries(self, table: EpochTable, branch: Branch) -> Sequence[tuple[int, int | None]] | None:  # noqa: ARG002
        return [(child, child) for child in sorted(branch.children)]

    def epoch_changed(self, now: float, first: bool) -> list[Action]:  # noqa: ARG002
        tables = self.context.tables
        self.routing.keep_only(tables.interfaces_in_use())
        return []

    def rows(self) -> Iterable[Row]:
        return rows_by_interface(self.routing)


class PerInterfaceStrict(PerInterface):
    """Per-interface forwarding with the ingress filter and the treatment of URs of the paper.

    Sections 3.5.1 to 3.5.3 lose receivers on graphs with cycles, when a predicate is widened after it was
    trimmed, and when a UR is partial or overtakes an RA (docs/adr/0002 and 0003).
    """

    # An over-simplified p_i covers RAs that the routers beyond never got; the filter would drop them.
    stays_exact = "which would lose receivers by it"
    ingress = CoveringFilter

    def reply_rules(self) -> ReplyRules:
        return StrictReplyRules(self.context, self.routing)


class StrictReplyRules(ReplyRules):
    """Sections 3.5.2 and 3.5.3 to the letter: p_i is replaced by the UR alone, PARTIAL or not."""

    def with_advertised(self, report: Report, ras_since_request: Report) -> Report:  # noqa: ARG002
        return {part: known.copy() for part, known in report.items()}

    def widens(self, partial: bool) -> bool:  # noqa: ARG002
        return False


class Topics(PerInterface):
    """Brokers of topics: RAs and URs ask for the topics of p0, and p0 alone decides about delivery."""

    stays_exact = "whose tables hold topics"
    reads_filters = True

    def reply_rules(self) -> ReplyRules:
        return _TopicReplies(self.context, self.routing)

    def announced(self, local: Predicate) -> Predicate:
        return topics_of(local)


class _TopicReplies(ReplyRules):
    def assembled(self, epoch: int, branch: Branch, reports: Iterable[Report]) -> Predicate:
        # The topics cover p0, which is in the answer.
        topics = self.content.builder(topics_of(self._routing.local))
        return super().assembled(epoch, branch, [*reports, {LOCAL_INTERFACE: topics}])


def topics_of(predicate: Predicate) -> Predicate:
    """Returns the topics of filters: of each its first equality; without an equality, all topics."""
    topics = (tuple(each for each in asked if each.operator is Operator.EQ)[:1] for asked in predicate)
    return Predicate(tuple(dict.fromkeys(map(Filter, topics))))
