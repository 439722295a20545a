"""The other routers' side of the SR/UR protocol: passing SRs on, and assembling URs.

Protocol paper, sections 3.5.2 to 3.5.4. For each issuer there is one machine: it waits, or it does not.
`TRANSITIONS` is the whole of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from router.content.base import Content
from router.predicates.covering.builder import PredicateBuilder
from router.predicates.model import Predicate
from router.protocol.broadcast import Branch
from router.protocol.counters import Counters, Drop
from router.protocol.events import Action, Send
from router.protocol.pull.reply_rules import ReplyRules, Report, Restrict
from router.protocol.pull.requests import Reply, RoundTripEstimator
from router.wire.frames import Flags, Frame, SenderRequest

_MICROSECONDS = 1_000_000


class State(Enum):
    IDLE = auto()
    WAITING = auto()


class ReplyInput(Enum):
    REQUEST = auto()
    OLD_REQUEST = auto()
    REPLY = auto()
    OTHER_REPLY = auto()
    COMPLETE = auto()
    TIMEOUT = auto()
    RETIRED = auto()


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


@dataclass(frozen=True, slots=True)
class _ReplyStep:
    """An input to the machine of one issuer."""

    issuer: int
    now: float = 0.0
    branch: Branch | None = None
    frame: Frame | None = None
    timeout: float = 0.0
    reply: Reply | None = None


class Replies:
    """The URs that this router owes.

    Args:
        restrict: bounds the RA ingress filter by the answer of a child.
        lifetime_s: how long the number of an SR counts: as long as its issuer waits for URs. One SR with the
            greatest of all numbers, forged or by a defect, shuts its issuer out for that time alone.

    Attributes:
        pending: the URs, by issuer of the SR.
    """

    def __init__(
        self,
        restrict: Restrict,
        rules: ReplyRules,
        round_trips: RoundTripEstimator,
        counters: Counters,
        content: Content,
        lifetime_s: float,
    ) -> None:
        self._restrict = restrict
        self._rules = rules
        self._round_trips = round_trips
        self._counters = counters
        self._content = content
        self.pending: dict[int, _Pending] = {}
        # Request numbers only grow, over restarts too.
        self._lifetime_s = lifetime_s
        #: Issuer -> the number of its last SR, and until when it counts.
        self._seen: dict[int, tuple[int, float]] = {}

    def next_deadline(self) -> float | None:
        if not self.pending:
            return None
        return min(pending.deadline for pending in self.pending.values())

    def request(self, branch: Branch, frame: Frame, request: SenderRequest, now: float) -> list[Action]:
        """An SR came in from the parent on its issuer's tree."""
        last, until = self._seen.get(frame.issuer, (-1, now))
        newer = frame.seq > last or now >= until
        step = _ReplyStep(
            frame.issuer, now, branch=branch, frame=frame, timeout=request.timeout_us / _MICROSECONDS
        )
        return self._enter(ReplyInput.REQUEST if newer else ReplyInput.OLD_REQUEST, step)

    def reply(self, issuer: int, reply: Reply, now: float) -> list[Action]:
        """A UR came in that names another router as the issuer of its SR."""
        pending = self.pending.get(issuer)
        matches = (
            pending is not None
            and (pending.number, pending.epoch) == (reply.number, reply.epoch)
            and reply.interface in pending.awaited
        )
        given = ReplyInput.REPLY if matches else ReplyInput.OTHER_REPLY
        return self._enter(given, _ReplyStep(issuer, now, reply=reply))

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
        actions: list[Action] = []
        for issuer in [issuer for issuer, pending in self.pending.items() if now >= pending.deadline]:
            actions += self._enter(ReplyInput.TIMEOUT, _ReplyStep(issuer, now))
        return actions

    def retire(self, epochs: frozenset[int]) -> None:
        """Only these epochs are still in use: no UR of another can come, or be sent."""
        for issuer in [issuer for issuer, pending in self.pending.items() if pending.epoch not in epochs]:
            self._enter(ReplyInput.RETIRED, _ReplyStep(issuer))

    def _enter(self, given: ReplyInput, step: _ReplyStep) -> list[Action]:
        state = State.WAITING if step.issuer in self.pending else State.IDLE
        act, next_state = TRANSITIONS[state, given]
        actions = act(self, step)
        if next_state is State.IDLE:
            self.pending.pop(step.issuer, None)
        elif not self.pending[step.issuer].awaited:
            actions += self._enter(ReplyInput.COMPLETE, step)
        return actions

    # What the transitions do.

    def _open(self, step: _ReplyStep) -> list[Action]:
        """Takes an SR on: asks the children, except those for whom the table has the answer."""
        frame, branch, now = step.frame, step.branch, step.now
        assert frame is not None
        assert branch is not None
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
        timeout = self._round_trips.time_left(step.timeout, branch.parent)
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

    def _record(self, step: _ReplyStep) -> list[Action]:
        pending, reply = self.pending[step.issuer], step.reply
        assert reply is not None
        child = reply.interface
        pending.awaited.remove(child)
        read = self._rules.read(pending.epoch, pending.branch, child, reply.predicate)
        pending.reported[child] = read
        pending.partial |= reply.partial
        if reply.partial:
            return []
        self._round_trips.measured(child, step.now - pending.received_at)
        report = self._rules.with_advertised(read, pending.ras_since_request.get(child, {}))
        self._restrict(pending.epoch, child, report)
        if self._rules.learns(pending.branch, child):
            self._counters.urs_reused += self._rules.apply_reply(child, reply.epoch, report, False, step.now)
        return []

    def _answer(self, step: _ReplyStep) -> list[Action]:
        """p0 or the URs of the children, to the parent (section 3.5.2)."""
        pending = self.pending[step.issuer]
        since = pending.ras_since_request
        reports = [
            self._rules.with_advertised(pending.reported.get(child, {}), since.get(child, {}))
            for child in sorted(pending.reported.keys() | since.keys())
        ]
        answer = self._rules.assembled(pending.epoch, pending.branch, reports)
        partial = pending.partial or bool(pending.awaited)
        predicate = self._rules.predicate_of(answer)
        self._counters.urs_sent += 1
        self._counters.urs_sent_partial += partial
        flags = Flags.PARTIAL if partial else Flags.NONE
        # A UR takes one hop: the router upstream makes its own.
        frame = Frame(
            self._content.reply_frame, step.issuer, pending.number, pending.epoch, 1, predicate, flags
        )
        return [Send(frozenset({pending.branch.parent}), frame)]

    def _count_old(self, _step: _ReplyStep) -> list[Action]:
        self._counters.drop(Drop.SR_OLD)
        return []

    def _count_other(self, step: _ReplyStep) -> list[Action]:
        assert step.reply is not None
        seen = step.reply.number <= self._seen.get(step.issuer, (-1, 0.0))[0]
        self._counters.drop(Drop.UR_LATE if seen else Drop.UR_UNEXPECTED)
        return []

    def _forget(self, _step: _ReplyStep) -> list[Action]:
        return []


_Act = Callable[[Replies, _ReplyStep], list[Action]]

#: (state, input) -> what is done, and the state after it. A pair that is not here cannot occur. A machine
#: that waits for nobody gets the input COMPLETE at once: so do leaves, which answer with p0 alone.
TRANSITIONS: Mapping[tuple[State, ReplyInput], tuple[_Act, State]] = {
    (State.IDLE, ReplyInput.REQUEST): (Replies._open, State.WAITING),
    (State.IDLE, ReplyInput.OLD_REQUEST): (Replies._count_old, State.IDLE),
    (State.IDLE, ReplyInput.OTHER_REPLY): (Replies._count_other, State.IDLE),
    # A new request of the issuer, which has given up its last request.
    (State.WAITING, ReplyInput.REQUEST): (Replies._open, State.WAITING),
    (State.WAITING, ReplyInput.OLD_REQUEST): (Replies._count_old, State.WAITING),
    (State.WAITING, ReplyInput.REPLY): (Replies._record, State.WAITING),
    (State.WAITING, ReplyInput.OTHER_REPLY): (Replies._count_other, State.WAITING),
    (State.WAITING, ReplyInput.COMPLETE): (Replies._answer, State.IDLE),
    (State.WAITING, ReplyInput.TIMEOUT): (Replies._answer, State.IDLE),
    (State.WAITING, ReplyInput.RETIRED): (Replies._forget, State.IDLE),
}
