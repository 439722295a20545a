"""Pull routing as one part of a router: sender requests, update replies, and when to ask.

Protocol paper, sections 3.5.2 to 3.5.5.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from router.predicates.model import Predicate
from router.protocol.advertisements import IngressFilter
from router.protocol.broadcast import Branch, BroadcastTables
from router.protocol.clock import earlier
from router.protocol.counters import Counters
from router.protocol.events import Action, Send
from router.protocol.knowledge import Knowledge
from router.protocol.options import RouterOptions
from router.protocol.replies import Replies
from router.protocol.request_policy import RequestPolicy
from router.protocol.requests import Reply, Requests
from router.protocol.round_trips import Timing
from router.protocol.routing import RoutingTable
from router.wire.frames import Flags, Frame, FrameType, SenderRequest


class Updates:
    """The SR/UR protocol at one router.

    Args:
        number: makes the next request number.
    """

    def __init__(
        self,
        node: int,
        options: RouterOptions,
        tables: BroadcastTables,
        routing: RoutingTable,
        ingress: IngressFilter,
        counters: Counters,
        number: Callable[[], int],
        rng: random.Random,
    ) -> None:
        self._node = node
        self._options = options
        self._tables = tables
        self._routing = routing
        self._counters = counters
        self._number = number
        self._timing = Timing()
        self._knowledge = Knowledge(options, tables, routing)
        self._policy = RequestPolicy(options, rng)
        self._requests = Requests(self._knowledge, self._timing, counters)
        self._replies = Replies(options, routing, ingress, self._knowledge, self._timing, counters)

    @property
    def idle(self) -> bool:
        """True if no UR is owed or awaited."""
        return not self._replies.pending and not self._requests.waiting

    def next_deadline(self) -> float | None:
        at = earlier(self._requests.next_deadline(), self._replies.next_deadline())
        if self._options.sr_policy == "never":
            return at
        return earlier(at, self._policy.next_deadline(self._askable()))

    def tick(self, now: float) -> list[Action]:
        self._requests.tick(now)
        actions = self._replies.tick(now)
        if self._policy.periodic(now):
            self._forget_dead_ends()
            actions += self._issue(self._askable(), now)
        return actions + self._issue(self._policy.exceeding(self._askable(), now), now)

    def start(self, now: float) -> None:
        """The router has its first epoch."""
        self._policy.start(now)

    def settle(self) -> None:
        """No more SRs by policy."""
        self._policy.stop()

    def new_epoch(self) -> None:
        """The current epoch changed, and perhaps some were retired."""
        self._requests.new_epoch()
        self._replies.retire(self._tables.epochs())
        self._knowledge.forget()
        self._policy.keep_only(self._children())

    def computed(self, seconds: float) -> None:
        """An SR or UR took so long to handle."""
        self._timing.computed(seconds)

    def ask(self, interfaces: frozenset[int] | None, now: float) -> list[Action]:
        """Issues an SR through `interfaces` (None: all), as far as this router's own tree goes on there."""
        if interfaces is None:
            self._forget_dead_ends()
            return self._issue(self._children(), now)
        return self._issue(self._children() & interfaces, now)

    def message_sent(self, interfaces: Iterable[int], now: float) -> list[Action]:
        """A message went out of `interfaces`, which may make an SR due."""
        if self._options.sr_policy != "count":
            return []
        self._policy.forwarded(interfaces)
        return self._issue(self._policy.exceeding(self._askable(), now), now)

    def advertisement_heard(self, interface: int, predicate: Predicate) -> None:
        """An RA came in on the interface towards its issuer, covered or not."""
        self._requests.heard(interface, predicate)
        self._replies.heard(interface, predicate)

    def request_received(
        self, branch: Branch, frame: Frame, request: SenderRequest, now: float
    ) -> list[Action]:
        self._counters.srs_received += 1
        return self._replies.request(branch, frame, request, now)

    def reply_received(self, interface: int, frame: Frame, predicate: Predicate, now: float) -> list[Action]:
        self._counters.urs_received += 1
        reply = Reply(interface, frame.seq, frame.epoch, predicate, Flags.PARTIAL in frame.flags)
        if frame.issuer == self._node:
            self._requests.reply(reply, now)
            return []
        return self._replies.reply(frame.issuer, reply, now)

    def _forget_dead_ends(self) -> None:
        """Drops what older epochs left for interfaces behind which nobody lies: no UR comes from there."""
        current = self._tables.current
        if current is not None and self._knowledge.current(current.epoch):
            self._routing.keep_only(self._children())

    def _issue(self, interfaces: frozenset[int], now: float) -> list[Action]:
        current = self._tables.current
        if current is None or not interfaces:
            return []
        number, timeout = self._number(), self._options.sr_timeout
        self._policy.issued(interfaces, now)
        self._requests.ask(interfaces, number, current.epoch, now, timeout)
        self._counters.srs_issued += 1
        body = SenderRequest(int(timeout * 1_000_000))
        frame = Frame(FrameType.SR, self._node, number, current.epoch, self._options.hop_limit, body)
        return [Send(interfaces, frame)]

    def _children(self) -> frozenset[int]:
        current = self._tables.current
        own = current.branches.get(self._node) if current is not None else None
        return own.on_tree if own is not None else frozenset()

    def _askable(self) -> frozenset[int]:
        """Interfaces through which nothing is outstanding: the policies do not ask twice at a time."""
        return self._children() - self._requests.waiting
