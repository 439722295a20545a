"""Pull routing as a part of a router: sender requests, update replies, and when to ask.

Protocol paper, sections 3.5.2 to 3.5.5.
"""

from __future__ import annotations

import math

from router.predicates import Predicate
from router.protocol.broadcast import Branch
from router.protocol.context import Context, MessageCounts, Part, Period, earlier
from router.protocol.events import Action, HandlingTime, RequestUpdate, Send
from router.protocol.pull.replies import Replies
from router.protocol.pull.requests import ReplyRules, Requests, Restrict, RoundTripEstimator
from router.wire.frames import Frame, FrameType, SenderRequest


class PullRouting(Part):
    """The SR/UR protocol at a router, with the policies `never` and `periodic`: through every interface each
    `sr_period_s`, in the mean with exponential timers.

    Args:
        rules: what URs do to the table.
        restrict: bounds the RA ingress filter, which must not rely on what a UR has taken out of tables.
    """

    __slots__ = (
        *("_context", "_issued", "_outstanding", "_pending", "_period"),
        *("_replies", "_requests", "_round_trips", "_rules"),
    )

    def __init__(self, context: Context, rules: ReplyRules, restrict: Restrict) -> None:
        self._context = context
        self._rules = rules
        self._round_trips = RoundTripEstimator()
        options = context.options
        period_s = options.sr_period_s if options.sr_policy == "periodic" else None
        self._period = Period(options, context.rng, period_s)
        self._requests = Requests(context, rules, self._round_trips)
        self._replies = Replies(context, rules, self._round_trips, restrict)
        self._outstanding, self._pending = self._requests.outstanding, self._replies.pending
        self._issued = 0

    @property
    def idle(self) -> bool:
        """True if no UR is owed or awaited."""
        return not self._pending and not self._outstanding

    def next_deadline(self) -> float | None:
        at = earlier(self._requests.next_deadline(), self._replies.next_deadline())
        return earlier(at, self._period.at)

    def tick(self, now: float) -> list[Action]:
        self._requests.tick(now)
        actions = self._replies.tick(now)
        if self._period.due(now):
            self._forget_dead_ends()
            actions += self._issue(self._askable(), now)
        return actions

    def settle(self) -> None:
        """No more SRs by policy."""
        self._period.stop()

    def epoch_changed(self, now: float, first: bool) -> list[Action]:
        self._requests.epoch_changed()
        self._replies.retire(self._context.tables.epochs())
        self._rules.forget()
        if first:
            self._period.start(now)
        return []

    def advertised(self, interface: int, issuer: int, predicate: Predicate) -> None:
        """An RA came in on the interface towards its issuer, covered or not."""
        if self._outstanding:
            self._requests.advertised(interface, issuer, predicate)
        if self._pending:
            self._replies.advertised(interface, issuer, predicate)

    def update_requested(self, event: RequestUpdate, now: float) -> list[Action]:
        """Issues an SR as far as this router's own tree goes on beyond the interfaces."""
        if event.interfaces is None:
            self._forget_dead_ends()
            return self._issue(self._children(), now)
        return self._issue(self._children() & event.interfaces, now)

    def handling_measured(self, event: HandlingTime, _now: float) -> list[Action]:
        """The driver has measured how long this router took for a frame: t_p."""
        self._round_trips.computed(event.seconds)
        return []

    def request_received(self, branch: Branch, frame: Frame, now: float) -> list[Action]:
        """An SR came in from the parent on its issuer's tree."""
        assert isinstance(frame.body, SenderRequest)
        self._context.counters.srs_received += 1
        return self._replies.request(branch, frame, frame.body, now)

    def reply_received(self, interface: int, frame: Frame, now: float) -> list[Action]:
        """A UR came in from a neighbour."""
        self._context.counters.urs_received += 1
        if frame.issuer == self._context.node:
            self._requests.reply(interface, frame, now)
            return []
        return self._replies.reply(interface, frame, now)

    def _forget_dead_ends(self) -> None:
        """Drops what older epochs left for interfaces behind which nobody is."""
        current = self._context.tables.current
        if current is not None and self._rules.current(current.epoch):
            self._rules.forget_dead_ends(self._children())

    def _issue(self, interfaces: frozenset[int], now: float) -> list[Action]:
        current = self._context.tables.current
        if current is None or not interfaces:
            return []
        self._issued += 1
        number, timeout = self._context.sequence_number(self._issued), self._context.options.sr_timeout_s
        self._requests.ask(interfaces, number, current.epoch, self._context.own_branch(), now, timeout)
        self._context.counters.srs_issued += 1
        body = SenderRequest(int(timeout * 1_000_000))
        return [Send(interfaces, self._context.issued(FrameType.SR, number, body))]

    def _children(self) -> frozenset[int]:
        """The interfaces from which this router's SRs are answered."""
        return self._context.own_branch().on_tree

    def _askable(self) -> frozenset[int]:
        """Interfaces through which nothing is outstanding: the policies do not ask twice at a time."""
        return self._children().difference(self._outstanding)


class CountingPullRouting(PullRouting):
    """The SR/UR protocol with the policy `count`.

    An SR is due through interface i when the messages sent through it since the last SR, C_i, exceed
    `sr_threshold`, but not within `sr_min_interval_s` of that SR. Compiled code counts messages, too
    (`router.forwarding`).
    """

    def __init__(self, context: Context, rules: ReplyRules, restrict: Restrict) -> None:
        super().__init__(context, rules, restrict)
        #: C_i of every interface.
        self._messages = MessageCounts(context.options.sr_threshold)
        self._issued_at: dict[int, float] = {}

    def next_deadline(self) -> float | None:
        due = min((self._allowed_at(i) for i in self._exceeding()), default=None)
        return earlier(super().next_deadline(), due)

    def message_sent(self, interfaces: frozenset[int], now: float) -> list[Action]:
        """A message went out of `interfaces`, which may make an SR due."""
        self._messages.add(interfaces)
        return self._issue_due(now)

    def _issue_due(self, now: float) -> list[Action]:
        return self._issue(frozenset(i for i in self._exceeding() if now >= self._allowed_at(i)), now)

    def _exceeding(self) -> list[int]:
        return [i for i in self._askable() if self._messages[i] > self._messages.limit]

    def _allowed_at(self, interface: int) -> float:
        issued_at = self._issued_at.get(interface)
        # Nothing was issued: at once, by any clock.
        return 0.0 if issued_at is None else issued_at + self._context.options.sr_min_interval_s

    def settle(self) -> None:
        self._messages.limit = 2**62  # no count makes anything due

    # What may change the interfaces through which the policy asks.

    def tick(self, now: float) -> list[Action]:
        actions = super().tick(now) + self._issue_due(now)
        self._set_askable()
        return actions

    def epoch_changed(self, now: float, first: bool) -> list[Action]:
        actions = super().epoch_changed(now, first)
        self._messages.keep_only(self._children())
        self._set_askable()
        return actions

    def reply_received(self, interface: int, frame: Frame, now: float) -> list[Action]:
        actions = super().reply_received(interface, frame, now)
        self._set_askable()
        return actions

    def _issue(self, interfaces: frozenset[int], now: float) -> list[Action]:
        actions = super()._issue(interfaces, now)
        if actions:
            for interface in interfaces:
                self._messages.reset(interface)
                self._issued_at[interface] = now
            self._set_askable()
        return actions

    def _set_askable(self) -> None:
        """Counts of interfaces through which the policy does not ask make nothing due."""
        askable = self._askable()
        self._messages.fit(max(askable, default=0))
        due = self._messages.due
        for interface in range(len(due)):
            due[interface] = self._allowed_at(interface) if interface in askable else math.inf

    def message_counts(self) -> MessageCounts | None:
        return self._messages


class UnwantedPullRouting(PullRouting):
    """The SR/UR protocol with the policy `unwanted`: an SR through every interface (slides, part I).

    It is due when the messages that came in since the policy's last SR, and were neither forwarded nor
    delivered, exceed `sr_threshold`, but not within `sr_min_interval_s` of that SR, nor if a UR is awaited.
    """

    __slots__ = ("_allowed_at", "_counted")

    def __init__(self, context: Context, rules: ReplyRules, restrict: Restrict) -> None:
        super().__init__(context, rules, restrict)
        self._allowed_at = 0.0
        #: `messages_unwanted` at the last SR of the policy.
        self._counted: float = 0

    def next_deadline(self) -> float | None:
        return earlier(super().next_deadline(), self._allowed_at if self._exceeds() else None)

    def tick(self, now: float) -> list[Action]:
        actions = super().tick(now)
        if now >= self._allowed_at and self._exceeds():
            self._counted = self._context.counters.messages_unwanted
            self._allowed_at = now + self._context.options.sr_min_interval_s
            actions += self._issue(self._children(), now)
        return actions

    def _exceeds(self) -> bool:
        unwanted = self._context.counters.messages_unwanted - self._counted
        return unwanted > self._context.options.sr_threshold and not self._outstanding

    def settle(self) -> None:
        super().settle()
        # No count exceeds it.
        self._counted = math.inf

    def message_sent(self, interfaces: frozenset[int], now: float) -> list[Action]:  # noqa: ARG002
        """Does nothing: of a part with this method, each message may change the deadline.

        No message is forwarded by compiled code.
        """
        return []


def pull_routing(context: Context, rules: ReplyRules, restrict: Restrict) -> PullRouting:
    """The SR/UR protocol by the router's request policy: two policies depend on each message."""
    kinds = {"count": CountingPullRouting, "unwanted": UnwantedPullRouting}
    return kinds.get(context.options.sr_policy, PullRouting)(context, rules, restrict)
