"""Pull routing as a part of a router: sender requests, update replies, and when to ask.

Protocol paper, sections 3.5.2 to 3.5.5.
"""

from __future__ import annotations

from router.predicates.model import Predicate
from router.protocol.broadcast import Branch
from router.protocol.clock import earlier
from router.protocol.context import Context
from router.protocol.events import Action, HandlingTime, RequestUpdate, Send
from router.protocol.ingress import IngressFilter
from router.protocol.parts import MessageCounts, Part
from router.protocol.replies import Replies
from router.protocol.reply_rules import ReplyRules
from router.protocol.request_policy import RequestPolicy
from router.protocol.requests import Reply, Requests
from router.protocol.round_trips import RoundTripEstimator
from router.wire.frames import Flags, Frame, FrameType, SenderRequest


class PullRouting(Part):
    """The SR/UR protocol at a router.

    Args:
        rules: what URs do to the table.
        ingress: the RA filter, which must not rely on what a UR has taken out of tables beyond.
    """

    def __init__(self, context: Context, rules: ReplyRules, ingress: IngressFilter) -> None:
        options, counters, content = context.options, context.counters, context.content
        self._context = context
        self._rules = rules
        self._round_trips = RoundTripEstimator()
        self._policy = RequestPolicy(options, context.rng)
        self._requests = Requests(rules, self._round_trips, counters, content)
        lifetime_s = options.sr_timeout_s
        self._replies = Replies(ingress, rules, self._round_trips, counters, content, lifetime_s)
        self._issued = 0

    @property
    def idle(self) -> bool:
        """True if no UR is owed or awaited."""
        return not self._replies.pending and not self._requests.waiting

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
        self._requests.advertised(interface, issuer, predicate)
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
        return self._children() - self._requests.waiting


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


def pull_routing(context: Context, rules: ReplyRules, ingress: IngressFilter) -> PullRouting:
    """The SR/UR protocol by the router's request policy: only `count` has to hear of each message."""
    counts = context.options.sr_policy == "count"
    return (CountingPullRouting if counts else PullRouting)(context, rules, ingress)
