"""The home of subscriptions: begins and ends their rounds, delivers to their boxes, asks for what is missing.

Attention paper, sections 3.1, 4.1 and 4.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from router.predicates import Message
from router.protocol.bounds import Recent
from router.protocol.context import Context, Timers
from router.protocol.counters import Drop
from router.protocol.events import Action, ApplicationGone, Refused, Send
from router.protocol.services.attention import (
    DeliverPublication,
    Index,
    Origin,
    Outcome,
    Refresh,
    Register,
    Registered,
    RoundEnded,
    Unregister,
    Unregistered,
)
from router.protocol.services.attention.cache import Cache, Cached, PublicationId
from router.protocol.services.attention.dissemination import (
    AttentionOptions,
    Strategy,
    Trigger,
    fan_out,
    transition,
)
from router.protocol.services.attention.subscriptions import (
    ENDED_AT_ONCE,
    MAX_WEIGHT,
    MOST_OF_AN_APPLICATION,
    NEVER,
    UNKNOWN,
    Box,
    Boxes,
    Entry,
    SubscriptionTable,
    Walk,
    weight_of,
)
from router.wire.attention import MAX_OFFERED, MAX_SUB_PREDICATE_BYTES
from router.wire.frames import Frame, FrameType, Overload, Subscription, SubscriptionFlags
from router.wire.predicate import encode_predicate

#: Part of a lifetime in whose end a home no longer repeats a SUB that has not come back: between the sixth
#: and the seventh halving, so that a late tick omits no repetition.
_LAST = 1 / 96
#: Publications that were delivered, that a router remembers at least.
_REMEMBERED = 4096
_ALL = frozenset(Index)
_UNTOUCHED = frozenset({Index.OPT, Index.PPT})


def microseconds(seconds: float) -> int:
    """A time span of a frame."""
    return max(0, round(seconds * 1e6))


class State:
    """The memory that the parts of the service at one router share.

    Attributes:
        searches: timers that search the cache for a subscription, one in a tick.
        delivered: publications that were delivered here. One that was evicted since is no new one, even if a
            frame calls it pending, which an overtaken frame may.
        settled: nothing more is to be started unasked.
    """

    def __init__(self, context: Context) -> None:
        options = context.options.service_options
        assert isinstance(options, AttentionOptions)
        self.context = context
        self.options = options
        self.strategy = Strategy(options)
        self.cache = Cache(options)
        self.boxes = Boxes()
        self.table = SubscriptionTable()
        self.timers = Timers(ENDED_AT_ONCE)
        self.searches = Timers(1)
        remembered = max(_REMEMBERED, 4 * options.cache_publications)
        self.delivered: Recent[PublicationId] = Recent(remembered)
        self.settled = False

    def keeps(self, weight: int, before: Entry | None = None, interface: int | None = None) -> bool:
        """Whether the router may keep a subscription of this weight.

        A neighbour may fill as much of the table as it leaves free (the dynamic threshold of Choudhury and
        Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998): a single one half
        of it, two of them a third each, so that there is room for the next.

        Args:
            before: the entry that it replaces; None: it is a further one.
            interface: the SUB came in on it; None: it is an application's.
        """
        options, table = self.options, self.table
        old = 0 if before is None else before.weight
        free = options.subscriptions - len(self.boxes) - len(table) + (before is not None)
        free_weight = options.subscriptions_weight - self.boxes.weight - table.weight + old
        if weight > MAX_WEIGHT or free < 1 or free_weight < weight:
            return False
        if interface is None:
            return True
        same = before is not None and before.interface == interface
        own = table.of_interface[interface] - same
        own_weight = table.weight_of_interface[interface] - (old if same else 0)
        return own < free and own_weight + weight <= free_weight


class Homes:
    """The subscriptions of the local applications.

    Args:
        state: of the router.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._context = state.context
        self._registered = 0

    # Events.

    def register(self, event: Register, now: float) -> list[Action]:
        """A new subscription: takes from the cache, then asks other routers."""
        state, predicate = self._state, event.predicate
        weight = weight_of(predicate)
        if weight > MAX_WEIGHT:
            return [Refused(event.app, f"predicate: filters and constraints: {weight}; at most {MAX_WEIGHT}")]
        size = len(encode_predicate(predicate))
        if size > MAX_SUB_PREDICATE_BYTES:
            most = MAX_SUB_PREDICATE_BYTES
            return [Refused(event.app, f"predicate: {size} bytes in a SUB; at most {most}")]
        if len(state.boxes.of(event.app)) >= MOST_OF_AN_APPLICATION:
            return [Refused(event.app, f"subscriptions of the application: at most {MOST_OF_AN_APPLICATION}")]
        if not state.keeps(weight):
            return [Refused(event.app, "the router keeps no more subscriptions")]
        self._registered += 1
        number = self._context.sequence_number(self._registered)
        limits = (event.max, event.lifetime_s, event.freshness_s)
        ever = set[PublicationId]() if state.options.history == "exact" and not event.refreshed else None
        box = Box(number, event.app, predicate, *limits, weight, 0 if event.refreshed else -1, ever)
        state.boxes.add(box)
        return self._begin(box, now)

    def refresh(self, event: Refresh, now: float) -> list[Action]:
        """The next round of a subscription."""
        box = self._state.boxes.get(event.app, event.subscription)
        if box is None:
            return [_unknown(event)]
        if box.collecting:
            return [Refused(event.app, f"subscription {box.number}: round {box.round} is not over")]
        return self._begin(box, now)

    def unregister(self, event: Unregister, now: float) -> list[Action]:
        """An application withdraws a subscription."""
        box = self._state.boxes.get(event.app, event.subscription)
        return [_unknown(event)] if box is None else self._withdraw(box, now)

    def application_gone(self, event: ApplicationGone, now: float) -> list[Action]:
        """The subscriptions of an application go with it."""
        return [action for box in self._state.boxes.of(event.app) for action in self._withdraw(box, now)]

    def epoch_changed(self, now: float) -> list[Action]:
        """Sends the SUBs that waited for the first epoch."""
        return [action for box in self._state.boxes if box.unsent for action in self._ask(box, now)]

    @property
    def idle(self) -> bool:
        """True if no SUB waits."""
        return not any(box.unsent for box in self._state.boxes)

    # Deliveries.

    def deliver(
        self,
        boxes: Iterable[Box],
        id_: PublicationId,
        message: Message,
        age_s: float,
        origin: Origin,
        now: float,
    ) -> list[Action]:
        """Delivers a publication to boxes that may get it, and ends the rounds of those that are full."""
        actions: list[Action] = []
        for box in boxes:
            self._state.delivered.add(id_)
            self._context.counters.publications_delivered += 1
            box.got.add(id_)
            if box.ever is not None:
                box.ever.add(id_)
            box.count += 1
            box.remote += origin is Origin.REMOTE
            actions.append(
                DeliverPublication(box.app, box.number, box.round, *id_, age_s, origin, message, now)
            )
            if not box.remaining:
                actions += self._end(box, Outcome.SATISFIED, now)
        return actions

    def taken(self, cached: Cached, now: float) -> list[Action]:
        """A cached publication is used for a local subscription (row L1)."""
        return self._state.cache.move(cached, transition(Trigger.TAKEN, cached.index is Index.PPT), now)

    # Rounds.

    def _begin(self, box: Box, now: float) -> list[Action]:
        """Delivers from the cache (row L1), then asks other routers for the rest."""
        state = self._state
        state.boxes.begin(box, now, state.delivered.added)
        self._context.counters.rounds_begun += 1
        limits = (box.max, box.lifetime_s, box.freshness_s)
        actions: list[Action] = [Registered(box.app, box.number, box.round, box.predicate, *limits, at_s=now)]
        box.timers.append(state.timers.set(box.deadline, lambda at: self._end(box, Outcome.EXPIRED, at)))
        if state.options.fan_out == "sequential":
            self._watch(box, now)
        top_up_s = state.options.top_up_s
        if top_up_s is not None and top_up_s < box.lifetime_s:
            box.timers.append(state.timers.set(box.deadline - top_up_s, lambda at: self._top_up(box, at)))
        found = state.cache.select(
            box.predicate,
            box.max,
            _ALL if not box.refreshed or box.ever is not None else _UNTOUCHED,
            now - box.freshness_s,
            lambda cached: box.lacks(cached.id, NEVER if cached.untouched else UNKNOWN),
        )
        for cached in found:
            origin, age_s = Origin(cached.index.value), now - cached.uploaded_at
            actions += self.taken(cached, now)
            actions += self.deliver([box], cached.id, cached.message, age_s, origin, now)
        return actions + self._ask(box, now) if box.collecting else actions

    def _end(self, box: Box, outcome: Outcome, now: float) -> list[Action]:
        forwarded_to = box.forwarded_to
        self._state.boxes.end(box)
        counters = self._context.counters
        counters.rounds_satisfied += outcome is Outcome.SATISFIED
        actions: list[Action] = [
            RoundEnded(box.app, box.number, box.round, outcome, box.count, box.remote, box.max, now)
        ]
        # Entries of other routers end by themselves at the deadline.
        if self._state.strategy.notifies and outcome is not Outcome.EXPIRED:
            interfaces = forwarded_to & self._context.own_branch().on_tree
            if interfaces:
                counters.overloads_issued += 1
                frame = self._context.issued(FrameType.OVERLOAD, box.number, Overload(box.round))
                actions.append(Send(interfaces, frame))
        return actions

    def _withdraw(self, box: Box, now: float) -> list[Action]:
        actions = self._end(box, Outcome.WITHDRAWN, now) if box.collecting else []
        self._state.boxes.remove(box)
        return [*actions, Unregistered(box.app, box.number, now)]

    # SUBs.

    def _top_up(self, box: Box, now: float) -> list[Action]:
        return [] if self._state.settled else self._ask(box, now, SubscriptionFlags.TOP_UP)

    def _watch(self, box: Box, now: float) -> None:
        """Halfway to the deadline, and halfway from there, a SUB that no child has sent back is repeated.

        The SUB may be lost, or the publications by which it ended. If a child has sent it back since the last
        check, the SUB goes on.
        """
        half_s = (box.deadline - now) / 2
        if half_s >= _LAST * box.lifetime_s:
            box.timers.append(self._state.timers.set(now + half_s, lambda at: self._repeat(box, at)))

    def _repeat(self, box: Box, now: float) -> list[Action]:
        self._watch(box, now)
        walk = box.walk
        if walk is None:
            return []
        moved, walk.moved = walk.moved, False
        return [] if moved and walk.frame.epoch == self._context.epoch else self._top_up(box, now)

    def sub_returned(self, interface: int, frame: Frame, now: float) -> list[Action]:
        """A child has nothing more for a subscription: the next child is asked.

        The SUB of a former epoch goes no further: it may have missed routers, and is repeated.
        """
        box = self._state.boxes.numbered(frame.seq)
        walk = None if box is None else box.walk
        current = frame.epoch == self._context.epoch
        body = frame.body
        assert isinstance(body, Subscription)
        if box is None or walk is None or not current or not walk.came_back(interface, frame):
            issued = frame.seq <= self._context.sequence_number(self._registered)
            begun = issued and (box is None or body.round <= box.round)
            running = walk is not None and current and walk.is_of(frame)
            late = self._state.options.fan_out == "sequential" and begun and not running
            return self._context.drop(Drop.SUB_OLD if late else Drop.OWN_FRAME)
        return self._walk(box, walk, body.offered[:MAX_OFFERED], now)

    def _walk(self, box: Box, walk: Walk, offered: tuple[PublicationId, ...], now: float) -> list[Action]:
        """Sends the SUB to the next child; there is no walk once all have sent it back.

        The child is asked for all that the box lacks, and so also for publications under way: a lost one is
        asked for a second time.
        """
        box.walk = walk if walk.children else None
        if box.walk is None:
            return []
        to = frozenset(walk.children[:1])
        box.forwarded_to |= to
        self._context.counters.subs_issued += 1
        left_us = microseconds(box.deadline - now)
        body = replace(walk.body, remaining=box.remaining, lifetime_left_us=left_us, offered=offered)
        return [Send(to, replace(walk.frame, body=body))]

    def _ask(self, box: Box, now: float, flags: SubscriptionFlags = SubscriptionFlags.NONE) -> list[Action]:
        """Sends the SUB of a round to the children on this router's tree."""
        context, options = self._context, self._state.options
        box.unsent = context.tables.current is None
        interfaces = context.own_branch().on_tree
        if box.unsent or not interfaces:
            return []
        if box.refreshed:
            flags |= SubscriptionFlags.REFRESHED
        # Other routers may offer what the box has, but only where they offer more than pending publications.
        offered = box.got if options.remote == "all" and not box.refreshed else ()
        body = Subscription(
            box.round,
            context.rng.getrandbits(32),
            box.remaining,
            microseconds(box.deadline - now),
            microseconds(box.freshness_s),
            box.predicate,
            flags,
            tuple(sorted(offered)[:MAX_OFFERED]),
        )
        if options.fan_out == "sequential":
            frame = context.issued(FrameType.SUB, box.number, body)
            return self._walk(box, Walk.of(frame, body, interfaces), body.offered, now)
        actions: list[Action] = []
        for asked, through in fan_out(options.fan_out, box.remaining, interfaces).items():
            context.counters.subs_issued += 1
            box.forwarded_to |= through
            part = replace(body, remaining=asked)
            actions.append(Send(through, context.issued(FrameType.SUB, box.number, part)))
        return actions


def _unknown(event: Refresh | Unregister) -> Refused:
    return Refused(event.app, f"subscription: {event.subscription} is none of this application's")
