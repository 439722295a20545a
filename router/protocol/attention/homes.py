"""The home of subscriptions: registers them, delivers to their boxes, asks other routers for what is missing.

Attention paper, sections 3.1, 4.1 and 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from router.predicates.covering.budget import total_weight
from router.predicates.model import Message
from router.protocol.attention.boxes import MOST_OF_AN_APPLICATION, NEVER, UNKNOWN, Box, BoxState
from router.protocol.attention.cache import Cached, PublicationId
from router.protocol.attention.events import (
    DeliverPublication,
    Index,
    Outcome,
    Refresh,
    Register,
    Registered,
    RoundEnded,
    Unregister,
    Unregistered,
    Whence,
)
from router.protocol.attention.state import State
from router.protocol.attention.transitions import Occasion, transition
from router.protocol.attention.turns import SENDS_A_TURN, Work, ended
from router.protocol.events import Action, ApplicationGone, Refused, Send
from router.wire.attention import MAX_OFFERED, MAX_SUB_PREDICATE_BYTES
from router.wire.frames import FrameType, Overload, Subscription, SubscriptionFlags
from router.wire.predicate import encode_predicate

_ALL = frozenset(Index)
_WHENCE = {index: Whence(index.value) for index in Index}
_STATES = {Outcome.SATISFIED: BoxState.FULL, Outcome.EXPIRED: BoxState.EXPIRED}


def microseconds(seconds: float) -> int:
    """A time span of a frame."""
    return max(0, round(seconds * 1e6))


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
        state = self._state
        weight = max(1, total_weight(event.predicate))
        most = self._context.options.turn_weight
        if weight > most:
            return [Refused(event.app, f"predicate: filters and constraints: {weight}; at most {most}")]
        size = len(encode_predicate(event.predicate))
        if size > MAX_SUB_PREDICATE_BYTES:
            most = MAX_SUB_PREDICATE_BYTES
            return [Refused(event.app, f"predicate: {size} bytes in a SUB; at most {most}")]
        if not state.boxes.room_for(event.app):
            return [Refused(event.app, f"subscriptions of the application: at most {MOST_OF_AN_APPLICATION}")]
        if not state.keeps(weight, None):
            return [Refused(event.app, "the router keeps no more subscriptions")]
        if not state.turns.room_for(None):
            return [Refused(event.app, "the router serves too many subscriptions at this time")]
        self._registered += 1
        number = self._context.sequence_number(self._registered)
        box = Box(number, event, weight, remembers=state.options.history == "exact")
        state.boxes.add(box)
        return self._begin(box, now)

    def refresh(self, event: Refresh, now: float) -> list[Action]:
        """The next round of a subscription."""
        box = self._state.boxes.get(event.app, event.subscription)
        if box is None:
            return [_unknown(event)]
        if box.state is BoxState.COLLECTING:
            return [Refused(event.app, f"subscription {box.number}: round {box.round} is not over")]
        if not self._state.turns.room_for(None):
            return [Refused(event.app, "the router serves too many subscriptions at this time")]
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
        return self._state.turns.start(self._ask_unsent(now), None)

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
        whence: Whence,
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
            box.remote += whence is Whence.REMOTE
            actions.append(
                DeliverPublication(box.app, box.number, box.round, *id_, age_s, whence, message, now)
            )
            if not box.remaining:
                actions += self._end(box, Outcome.SATISFIED, now)
        return actions

    # Rounds.

    def _begin(self, box: Box, now: float) -> list[Action]:
        state = self._state
        state.boxes.begin(box, now, state.delivered.added)
        self._context.counters.rounds_begun += 1
        actions: list[Action] = [
            Registered(
                box.app,
                box.number,
                box.round,
                box.predicate,
                box.max,
                box.lifetime_s,
                box.freshness_s,
                now,
            )
        ]
        box.timers.append(state.timers.set(box.deadline, lambda at: self._end(box, Outcome.EXPIRED, at)))
        top_up_s = state.options.top_up_s
        if top_up_s is not None and top_up_s < box.lifetime_s:
            box.timers.append(state.timers.set(box.deadline - top_up_s, lambda at: self._top_up(box, at)))
        return actions + state.turns.start(self._serve(box, now), None)

    def _serve(self, box: Box, now: float) -> Work:
        """Delivers from the cache (row L1), then asks other routers for the rest."""
        state, round_ = self._state, box.round
        indexes = _ALL if not box.refreshed or box.ever is not None else {Index.OPT, Index.PPT}
        got = box.got
        fit: Callable[[Cached], bool] = lambda cached: cached.id not in got  # noqa: E731
        if box.refreshed or box.ever is not None:
            fit = lambda cached: box.lacks(cached.id, NEVER if cached.untouched else UNKNOWN)  # noqa: E731
        search = state.cache.select(box.predicate, box.max, indexes, now - box.freshness_s, fit)
        found, now = yield from ended(search, now)
        actions: list[Action] = []
        for cached in found:
            if len(actions) >= SENDS_A_TURN:
                now = yield actions
                actions = []
            if not box.collects(round_, now):
                return actions
            # Between two turns it may have been sent, used or replaced, and it grows old.
            oldest_at = now - box.freshness_s
            usable = cached.place is not None and cached.index in indexes
            if usable and cached.uploaded_at >= oldest_at and fit(cached):
                age_s = now - cached.uploaded_at
                whence = _WHENCE[cached.index]
                actions += self.taken(cached, now)
                actions += self.deliver([box], cached.id, cached.message, age_s, whence, now)
        if not box.collects(round_, now):
            return actions
        return actions + self._ask(box, now)

    def taken(self, cached: Cached, now: float) -> list[Action]:
        """A cached publication is used for a local subscription (row L1)."""
        row = transition(Occasion.TAKEN, cached.index is Index.PPT, cached.index is Index.OPT)
        return self._state.move(cached, row, now)

    def _end(self, box: Box, outcome: Outcome, now: float) -> list[Action]:
        forwarded_to = box.forwarded_to
        self._state.boxes.end(box, _STATES.get(outcome, BoxState.EXPIRED))
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
        collecting = box.state is BoxState.COLLECTING
        actions = self._end(box, Outcome.WITHDRAWN, now) if collecting else []
        self._state.boxes.remove(box)
        return [*actions, Unregistered(box.app, box.number, now)]

    # SUBs.

    def _top_up(self, box: Box, now: float) -> list[Action]:
        return [] if self._state.settled else self._ask(box, now, SubscriptionFlags.TOP_UP)

    def _ask_unsent(self, now: float) -> Work:
        actions: list[Action] = []
        for box in (box for box in list(self._state.boxes) if box.unsent):  # as each is at its turn
            if len(actions) >= SENDS_A_TURN:
                now, actions = (yield actions), []
            actions += self._ask(box, now)
        return actions

    def _ask(self, box: Box, now: float, flags: SubscriptionFlags = SubscriptionFlags.NONE) -> list[Action]:
        """Sends the SUB of a round to the children on this router's tree."""
        context = self._context
        if context.tables.current is None:
            box.unsent = True
            return []
        box.unsent = False
        interfaces = context.own_branch().on_tree
        if not interfaces:
            return []
        if box.refreshed:
            flags |= SubscriptionFlags.REFRESHED
        # Others may offer what the box has, only where they offer more than pending publications.
        offered = box.got if self._state.options.remote == "all" and not box.refreshed else ()
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
        context.counters.subs_issued += 1
        actions: list[Action] = []
        for asked, through in self._state.fan_out(box.remaining, interfaces).items():
            box.forwarded_to |= through
            part = replace(body, remaining=asked)
            actions.append(Send(through, context.issued(FrameType.SUB, box.number, part)))
        return actions


def _unknown(event: Refresh | Unregister) -> Refused:
    return Refused(event.app, f"subscription: {event.subscription} is none of this application's")
