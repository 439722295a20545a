"""The other routers' side of the SR/UR protocol: passing SRs on, and assembling URs.

Protocol paper, sections 3.5.2 to 3.5.4. For each issuer, at most one UR is in the making.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from router.predicates import Predicate
from router.predicates.covering.algebra import PredicateBuilder
from router.protocol.broadcast import Branch
from router.protocol.context import Context
from router.protocol.counters import Drop
from router.protocol.events import Action, Send
from router.protocol.pull.requests import ReplyRules, Restrict, RoundTripEstimator
from router.protocol.routing import Report
from router.wire.frames import Flags, Frame, SenderRequest

_MICROSECONDS = 1_000_000


@dataclass(slots=True)
class _Pending:
    """A UR in the making.

    Attributes:
        awaited: children whose UR has not come.
        reported: child -> its UR, or what the table had for it.
        ras_since_request: child -> the RAs that came from it since the SR came in, by parts of a report.
        partial: somebody downstream is missing, or will be.
    """

    number: int
    epoch: int
    branch: Branch
    received_at: float
    deadline: float = 0.0
    awaited: set[int] = field(default_factory=set)
    reported: dict[int, Report] = field(default_factory=dict)
    ras_since_request: dict[int, dict[int, PredicateBuilder]] = field(default_factory=dict)
    partial: bool = False


class Replies:
    """The URs that this router owes.

    Args:
        restrict: bounds the RA ingress filter by the answer of a child.

    Attributes:
        pending: the URs, by issuer of the SR.
    """

    def __init__(
        self, context: Context, rules: ReplyRules, round_trips: RoundTripEstimator, restrict: Restrict
    ) -> None:
        self._restrict = restrict
        self._rules = rules
        self._round_trips = round_trips
        self._counters, self._content = context.counters, context.content
        self.pending: dict[int, _Pending] = {}
        #: How long the number of an SR counts: as long as its issuer waits for URs. Numbers only grow, over
        #: restarts too. One SR with the greatest of all, forged or by a defect, shuts its issuer out for that
        #: time alone.
        self._lifetime_s = context.options.sr_timeout_s
        #: Issuer -> the number of its last SR, and until when it counts.
        self._seen: dict[int, tuple[int, float]] = {}

    def next_deadline(self) -> float | None:
        if not self.pending:
            return None
        return min(pending.deadline for pending in self.pending.values())

    def request(self, branch: Branch, frame: Frame, request: SenderRequest, now: float) -> list[Action]:
        """An SR came in from the parent on its issuer's tree."""
        last, until = self._seen.get(frame.issuer, (-1, now))
        if frame.seq <= last and now < until:
            self._counters.drop(Drop.SR_OLD)
            return []
        # The issuer has given up its last SR.
        actions = self._open(branch, frame, request.timeout_us / _MICROSECONDS, now)
        return actions + self._completed(frame.issuer)

    def reply(self, child: int, frame: Frame, now: float) -> list[Action]:
        """A UR came in that names another router as the issuer of its SR."""
        issuer = frame.issuer
        pending = self.pending.get(issuer)
        if (
            pending is not None
            and (pending.number, pending.epoch) == (frame.seq, frame.epoch)
            and child in pending.awaited
        ):
            self._record(pending, child, frame, now)
            return self._completed(issuer)
        seen = frame.seq <= self._seen.get(issuer, (-1, 0.0))[0]
        self._counters.drop(Drop.UR_LATE if seen else Drop.UR_UNEXPECTED)
        return []

    def advertised(self, interface: int, issuer: int, predicate: Predicate) -> None:
        """An RA came in.

        Routers towards an issuer may have dropped it, relying on the UR due to them.
        """
        for pending in self.pending.values():
            place = self._rules.place(pending.epoch, pending.branch, interface, issuer)
            if place is not None:
                child, part = place
                since = pending.ras_since_request.setdefault(child, {})
                since.setdefault(part, self._content.builder()).add(predicate)

    def tick(self, now: float) -> list[Action]:
        due = [issuer for issuer, pending in self.pending.items() if now >= pending.deadline]
        return [self._answer(issuer) for issuer in due]

    def retire(self, epochs: frozenset[int]) -> None:
        """Only these epochs are still in use: no UR of another can come, or be sent."""
        for issuer in [issuer for issuer, pending in self.pending.items() if pending.epoch not in epochs]:
            del self.pending[issuer]

    def _completed(self, issuer: int) -> list[Action]:
        """The UR, if no child has to answer any more: that of a leaf has p0 alone."""
        return [] if self.pending[issuer].awaited else [self._answer(issuer)]

    def _open(self, branch: Branch, frame: Frame, timeout: float, now: float) -> list[Action]:
        """Takes an SR on: asks the children, except those for whom the table has the answer."""
        self._seen[frame.issuer] = frame.seq, now + self._lifetime_s
        pending = _Pending(frame.seq, frame.epoch, branch, now)
        self.pending[frame.issuer] = pending
        for child in sorted(branch.on_tree):
            known = self._rules.answer(frame.epoch, branch, child, now)
            if known is not None:
                self._counters.srs_saved += 1
                pending.reported[child] = known
                self._restrict(frame.epoch, child, known)
        asked = branch.on_tree.difference(pending.reported)
        timeout = self._round_trips.time_left(timeout, branch.parent)
        if not asked:
            return []
        if frame.hop_limit <= 1 or timeout <= 0:
            # It cannot go on, or no answer would be in time.
            pending.partial = True
            return []
        pending.awaited |= asked
        pending.deadline = now + timeout
        self._counters.srs_forwarded += 1
        body = SenderRequest(int(timeout * _MICROSECONDS))
        return [Send(asked, replace(frame, hop_limit=frame.hop_limit - 1, body=body, received=None))]

    def _record(self, pending: _Pending, child: int, frame: Frame, now: float) -> None:
        """Takes the UR of a child into the one that is owed, and perhaps into the table."""
        pending.awaited.remove(child)
        predicate, partial = self._content.predicate_in(frame), Flags.PARTIAL in frame.flags
        read = self._rules.read(pending.epoch, pending.branch, child, predicate)
        pending.reported[child] = read
        pending.partial |= partial
        self._round_trips.measured(child, now - pending.received_at, partial)
        if partial:
            return
        report = self._rules.with_advertised(read, pending.ras_since_request.get(child, {}))
        self._restrict(pending.epoch, child, report)
        if self._rules.learns(pending.branch, child):
            self._counters.urs_reused += self._rules.apply_reply(child, frame.epoch, report, False, now)

    def _answer(self, issuer: int) -> Action:
        """p0 or the URs of the children, to the parent (section 3.5.2)."""
        pending = self.pending.pop(issuer)
        since = pending.ras_since_request
        reports = [
            self._rules.with_advertised(pending.reported.get(child, {}), since.get(child, {}))
            for child in sorted(pending.reported.keys() | since.keys())
        ]
        predicate = self._rules.assembled(pending.epoch, pending.branch, reports)
        partial = pending.partial or bool(pending.awaited)
        self._counters.urs_sent += 1
        self._counters.urs_sent_partial += partial
        flags = Flags.PARTIAL if partial else Flags.NONE
        # A UR takes one hop: the router upstream makes its own.
        frame = Frame(self._content.reply_frame, issuer, pending.number, pending.epoch, 1, predicate, flags)
        return Send(frozenset({pending.branch.parent}), frame)
