"""The issuer's side of the SR/UR protocol: what is outstanding, and what becomes of its replies.

Protocol paper, section 3.5.2. One SR may go out of many interfaces, and each brings one UR back: for each
interface an SR is outstanding, or none is.

`ReplyRules` is how update replies change the routing table: p_i <- p_UR, if no receiver is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from router.predicates import Predicate
from router.predicates.covering.algebra import PredicateBuilder
from router.protocol.broadcast import Branch
from router.protocol.context import Context
from router.protocol.counters import Drop
from router.protocol.routing import Report, RoutingTable
from router.wire.frames import Flags, Frame
from router.wire.header import LOCAL_INTERFACE

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

    def assembled(self, epoch: int, branch: Branch, reports: Iterable[Report]) -> Predicate:  # noqa: ARG002
        """The predicate of this router's UR: p0, and what is behind its children."""
        answer = self._routing.copy_of(LOCAL_INTERFACE)
        for report in reports:
            for reported in report.values():
                answer.unite(reported)
        return answer.predicate

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


#: Experiment seconds taken for the round trip to a neighbour of which nothing has been measured: two hops of
#: a link of 10 ms, at rate 1 of the clock; a delay is wall time, and takes more of them at a faster rate.
#: The first whole UR replaces it. A value that is too small makes the first UR late, one that is too great
#: makes it partial.
INITIAL_ROUND_TRIP = 0.02
#: Round trips of one interface that are remembered.
_SAMPLES = 8
#: Weight of the past in the estimate of the computing time.
_DECAY = 0.875


class RoundTripEstimator:
    """t_c for each interface, and t_p.

    A round trip is measured from an SR sent through an interface to the whole UR that answers it. It holds
    what the routers beyond it took too, so the smallest of the last few stands for the neighbour's own: it
    errs to the long side, and too long a t_c makes a router give up early rather than answer too late. The
    partial UR that it then gets comes early, and counts if it makes t_c less: t_c would stay too long.
    """

    def __init__(self) -> None:
        self._samples: dict[int, deque[float]] = {}
        self._compute = 0.0

    def measured(self, interface: int, seconds: float, partial: bool) -> None:
        """A UR came through `interface` so many seconds after its SR."""
        if partial and seconds >= self.round_trip(interface):
            return
        self._samples.setdefault(interface, deque(maxlen=_SAMPLES)).append(max(0.0, seconds))

    def computed(self, seconds: float) -> None:
        """The driver saw a frame of the protocol take so long to handle: a rising value counts at once."""
        self._compute = max(seconds, _DECAY * self._compute)

    def round_trip(self, interface: int) -> float:
        """t_c: seconds from here to the neighbour behind `interface` and back."""
        return min(self._samples.get(interface, ()), default=INITIAL_ROUND_TRIP)

    def time_left(self, timeout: float, parent: int) -> float:
        """t_d = t - t_c - t_p (seconds) for an SR that came in on `parent`; negative: no time is left."""
        return timeout - self.round_trip(parent) - self._compute


@dataclass(slots=True)
class _Outstanding:
    number: int
    epoch: int
    branch: Branch
    sent_at: float
    deadline: float
    #: By the parts of a report.
    ras_since_request: dict[int, PredicateBuilder] = field(default_factory=dict)


class Requests:
    """The SRs that this router issued and waits for.

    Attributes:
        outstanding: by interface.
    """

    def __init__(self, context: Context, rules: ReplyRules, round_trips: RoundTripEstimator) -> None:
        self._counters, self._content = context.counters, context.content
        self._rules = rules
        self._round_trips = round_trips
        self.outstanding: dict[int, _Outstanding] = {}
        self._last_number = 0

    def next_deadline(self) -> float | None:
        if not self.outstanding:
            return None
        return min(request.deadline for request in self.outstanding.values())

    def ask(
        self, interfaces: Iterable[int], number: int, epoch: int, branch: Branch, now: float, timeout: float
    ) -> None:
        """An SR with this number went out of `interfaces` at `now`, down this router's own tree."""
        self._last_number = number
        for interface in interfaces:
            self.outstanding[interface] = _Outstanding(number, epoch, branch, now, now + timeout)

    def reply(self, interface: int, frame: Frame, now: float) -> None:
        """A UR came in that names this router as the issuer of its SR."""
        request = self.outstanding.get(interface)
        if request is None or (request.number, request.epoch) != (frame.seq, frame.epoch):
            asked = frame.seq <= self._last_number
            self._counters.drop(Drop.UR_LATE if asked else Drop.UR_UNEXPECTED)
            return
        del self.outstanding[interface]
        partial = Flags.PARTIAL in frame.flags
        self._round_trips.measured(interface, now - request.sent_at, partial)
        self._counters.urs_applied += 1
        predicate = self._content.predicate_in(frame)
        read = self._rules.read(request.epoch, request.branch, interface, predicate)
        report = self._rules.with_advertised(read, request.ras_since_request)
        self._rules.apply_reply(interface, frame.epoch, report, partial, now)

    def advertised(self, interface: int, issuer: int, predicate: Predicate) -> None:
        """An RA came in.

        A UR on its way may have been written before the RA was.
        """
        for child, request in self.outstanding.items():
            place = self._rules.place(request.epoch, request.branch, interface, issuer)
            if place is not None and place[0] == child:
                request.ras_since_request.setdefault(place[1], self._content.builder()).add(predicate)

    def tick(self, now: float) -> None:
        for interface in [i for i, request in self.outstanding.items() if now >= request.deadline]:
            del self.outstanding[interface]
            self._counters.urs_missed += 1

    def epoch_changed(self) -> None:
        """The trees that the SRs went out on are no longer those in use."""
        self.outstanding.clear()
