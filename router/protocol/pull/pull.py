"""Pull routing as a part of a router: sender requests, update replies, and when to ask.

Protocol paper, sections 3.5.2 to 3.5.5.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable

from router.predicates import Predicate
from router.protocol.broadcast import Branch
from router.protocol.context import Context, MessageCounts, Part, earlier
from router.protocol.events import Action, HandlingTime, RequestUpdate, Send
from router.protocol.options import RouterOptions
from router.protocol.pull.replies import Replies
from router.protocol.pull.requests import Reply, ReplyRules, Requests, Restrict, RoundTripEstimator
from router.wire.frames import Flags, Frame, FrameType, SenderRequest


class RequestPolicy:
    """`never`; `periodic`: through every interface each `sr_period_s`, in the mean with exponential timers;
    `count`: through interface i when the messages sent through it since the last SR, C_i, exceed
    `sr_threshold`, but not within `sr_min_interval_s` of that SR.
    """

    def __init__(self, options: RouterOptions, rng: random.Random) -> None:
        self._options = options
        self._rng = rng
        self._policy = options.sr_policy
        self._periodic_at: float | None = None
        #: C_i of every interface.
        self.messages = MessageCounts(options.sr_threshold)
        self._issued_at: dict[int, float] = {}

    def start(self, now: float) -> None:
        """The router has its first epoch: the period begins, at a random phase."""
        if self._policy == "periodic":
            self._periodic_at = now + self._options.first_time_drawn(self._rng, self._options.sr_period_s)

    def stop(self) -> None:
        """From now on: `never`."""
        self._policy = "never"
        self._periodic_at = None
        self.messages.limit = 2**62  # no count makes anything due

    def next_deadline(self, askable: Iterable[int]) -> float | None:
        """When an SR is due (perhaps long since), given the interfaces through which none is outstanding."""
        if self._policy == "count":
            return min((self._allowed_at(i) for i in self._exceeding(askable)), default=None)
        return self._periodic_at

    def forwarded(self, interfaces: Iterable[int]) -> None:
        """A message went out of `interfaces`."""
        if self._policy == "count":
            self.messages.add(interfaces)

    def periodic(self, now: float) -> bool:
        """Whether a round through every interface is due; the answer yes settles it."""
        if self._periodic_at is None or now < self._periodic_at:
            return False
        period = self._options.time_drawn(self._rng, self._options.sr_period_s)
        on_time = self._periodic_at + period
        self._periodic_at = on_time if on_time > now else now + period
        return True

    def exceeding(self, askable: Iterable[int], now: float) -> frozenset[int]:
        """Those of `askable` through which an SR is due by their message counts."""
        return frozenset(i for i in self._exceeding(askable) if now >= self._allowed_at(i))

    def issued(self, interfaces: Iterable[int], now: float) -> None:
        """An SR went out of `interfaces`, whatever the reason."""
        for interface in interfaces:
            self.messages.reset(interface)
            self._issued_at[interface] = now

    def set_askable(self, askable: Collection[int]) -> None:
        """The interfaces through which the policy may ask: counts of others make nothing due.

        Compiled code counts messages by it (`router.forwarding`).
        """
        self.messages.fit(max(askable, default=0))
        due = self.messages.due
        for interface in range(len(due)):
            due[interface] = self._allowed_at(interface) if interface in askable else math.inf

    def keep_only(self, interfaces: Iterable[int]) -> None:
        """Forgets the counts of every other interface."""
        self.messages.keep_only(interfaces)

    def _exceeding(self, interfaces: Iterable[int]) -> list[int]:
        if self._policy != "count":
            return []
        return [i for i in interfaces if self.messages[i] > self.messages.limit]

    def _allowed_at(self, interface: int) -> float:
        issued_at = self._issued_at.get(interface)
        # Nothing was issued: at once, by any clock.
        return 0.0 if issued_at is None else issued_at + self._options.sr_min_interval_s


class PullRouting(Part):
    """The SR/UR protocol at a router.

    Args:
        rules: what URs do to the table.
        restrict: bounds the RA ingress filter, which must not rely on what a UR has taken out of tables.
    """

    __slots__ = (
        *("_context", "_issued", "_outstanding", "_pending", "_policy"),
        *("_replies", "_requests", "_round_trips", "_rules"),
    )

    def __init__(self, context: Context, rules: ReplyRules, restrict: Restrict) -> None:
        self._context = context
        self._rules = rules
        self._round_trips = RoundTripEstimator()
        self._policy = RequestPolicy(context.options, context.rng)
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
        if self._context.options.sr_policy == "never":
            return at
        return earlier(at, self._policy.next_deadline(self._askable()))

    def tick(self, now: float) -> list[Action]:
        self._requests.tick(now)
        actions = self._replies.tick(now)
        if self._policy.periodic(now):
            self._forget_dead_ends()
            actions += self._issue(self._askable(), now)
        return actions + self._issue(self._policy.exceeding(self._askable(), now), now)

    def settle(self) -> None:
        """No more SRs by policy."""
        self._policy.stop()

    def epoch_changed(self, now: float, first: bool) -> list[Action]:
        self._requests.epoch_changed()
        self._replies.retire(self._context.tables.epochs())
        self._rules.forget()
        self._policy.keep_only(self._children())
        if first:
            self._policy.start(now)
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
        predicate = self._context.content.predicate_in(frame)
        reply = Reply(interface, frame.seq, frame.epoch, predicate, Flags.PARTIAL in frame.flags)
        if frame.issuer == self._context.node:
            self._requests.reply(reply, now)
            return []
        return self._replies.reply(frame.issuer, reply, now)

    def _forget_dead_ends(self) -> None:
        """Drops what older epochs left for interfaces behind which nobody is."""
        current = self._context.tables.current
        if current is not None and self._rules.current(current.epoch):
            self._rules.forget_dead_ends(self._children())

    def _issue(self, interfaces: frozenset[int], now: float) -> list[Action]:
        current = self._context.tables.current
        if current is None or not interfaces:
            return []
        number, timeout = self._next_number(), self._context.options.sr_timeout_s
        self._policy.issued(interfaces, now)
        self._requests.ask(interfaces, number, current.epoch, self._context.own_branch(), now, timeout)
        self._context.counters.srs_issued += 1
        body = SenderRequest(int(timeout * 1_000_000))
        return [Send(interfaces, self._context.issued(FrameType.SR, number, body))]

    def _next_number(self) -> int:
        self._issued += 1
        return self._context.sequence_number(self._issued)

    def _children(self) -> frozenset[int]:
        """The interfaces from which this router's SRs are answered."""
        return self._context.own_branch().on_tree

    def _askable(self) -> frozenset[int]:
        """Interfaces through which nothing is outstanding: the policies do not ask twice at a time."""
        return self._children().difference(self._outstanding)


class CountingPullRouting(PullRouting):
    """The SR/UR protocol with the policy `count`."""

    def message_sent(self, interfaces: frozenset[int], now: float) -> list[Action]:
        """A message went out of `interfaces`, which may make an SR due."""
        self._policy.forwarded(interfaces)
        return self._issue(self._policy.exceeding(self._askable(), now), now)

    # What may change the interfaces through which the policy asks.

    def tick(self, now: float) -> list[Action]:
        actions = super().tick(now)
        self._policy.set_askable(self._askable())
        return actions

    def epoch_changed(self, now: float, first: bool) -> list[Action]:
        actions = super().epoch_changed(now, first)
        self._policy.set_askable(self._askable())
        return actions

    def reply_received(self, interface: int, frame: Frame, now: float) -> list[Action]:
        actions = super().reply_received(interface, frame, now)
        self._policy.set_askable(self._askable())
        return actions

    def _issue(self, interfaces: frozenset[int], now: float) -> list[Action]:
        actions = super()._issue(interfaces, now)
        if actions:
            self._policy.set_askable(self._askable())
        return actions

    def message_counts(self) -> MessageCounts | None:
        return self._policy.messages


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
