"""The boxes of the subscriptions that were registered at this router (attention paper, section 4.1).

A box counts what was delivered to its subscription in a round. Its states::

    COLLECTING -> FULL     max publications were delivered: the subscription is satisfied
    COLLECTING -> EXPIRED  the lifetime has passed
    FULL, EXPIRED -> COLLECTING  the application refreshes the subscription: the next round

A box that the application withdraws is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from math import inf

from router.predicates.model import Message, Predicate
from router.protocol.attention.cache import PublicationId
from router.protocol.attention.events import Register
from router.protocol.attention.index import PredicateIndex
from router.protocol.attention.timers import Timer

#: Subscriptions of one application: they end in one turn when it leaves, with up to three actions each.
MOST_OF_AN_APPLICATION = 1024
#: See `Box.lacks`.
NEVER, UNKNOWN = inf, 0


class BoxState(Enum):
    COLLECTING = "collecting"
    FULL = "full"
    EXPIRED = "expired"


class Box:
    """The box of one subscription.

    Attributes:
        number: of the subscription.
        app: the application.
        max, lifetime_s, freshness_s: see `Register`.
        weight: of its predicate.
        round: number of the round.
        began_after: how many publications the router had delivered for the first time when the round began.
        deadline: the end of the round, seconds of the router's clock.
        got: the publications that were delivered in the round; empty when it is over.
        count, remote: how many were delivered in the round, and how many of them another router sent.
        ever: the publications of all rounds; None: they are not remembered (`history`), or there were rounds
            before a restart of the router, of which nothing is known.
        forwarded_to: the interfaces through which the SUBs of the round went.
        unsent: the SUB of the round waits for the first epoch.
        timers: of the round.
    """

    __slots__ = (
        "app",
        "began_after",
        "count",
        "deadline",
        "ever",
        "forwarded_to",
        "freshness_s",
        "got",
        "lifetime_s",
        "max",
        "number",
        "predicate",
        "remote",
        "round",
        "state",
        "timers",
        "unsent",
        "weight",
    )

    def __init__(self, number: int, event: Register, weight: int, remembers: bool) -> None:
        self.number = number
        self.app = event.app
        self.predicate: Predicate = event.predicate
        self.max = event.max
        self.lifetime_s = event.lifetime_s
        self.freshness_s = event.freshness_s
        self.weight = weight
        self.state = BoxState.EXPIRED
        # The first round is begun by `begin`, which adds 1.
        self.round = 0 if event.refreshed else -1
        self.began_after = 0
        self.deadline = 0.0
        self.got: set[PublicationId] = set()
        self.ever: set[PublicationId] | None = set() if remembers and not event.refreshed else None
        self.count = self.remote = 0
        self.forwarded_to: frozenset[int] = frozenset()
        self.unsent = False
        self.timers: list[Timer] = []

    @property
    def refreshed(self) -> bool:
        """Whether former rounds may have had publications."""
        return self.round > 0

    @property
    def remaining(self) -> int:
        """How many publications the round may still get."""
        return self.max - self.count

    def collects(self, round_: int, now: float) -> bool:
        """Whether a round is the present one, and is not over."""
        return self.round == round_ and self.state is BoxState.COLLECTING and now < self.deadline

    def lacks(self, id_: PublicationId, first: float) -> bool:
        """Whether the subscription may get a publication: the rule that gives the paper's (RQ).

        Args:
            first: the number of the publication among those that the router delivered for the first time
                (`NEVER`: it delivered it to no subscription; `UNKNOWN`: to none that is known). A
                subscription with former rounds may get it if the present round is older, or if its former
                rounds are remembered.
        """
        if id_ in self.got:
            return False
        if self.ever is not None:
            return id_ not in self.ever
        return first > self.began_after or not self.refreshed


class Boxes:
    """The boxes of one router, by number; those that collect are found by a publication."""

    def __init__(self) -> None:
        self._boxes: dict[int, Box] = {}
        #: Application -> its boxes, by number.
        self._of: dict[int, dict[int, Box]] = {}
        self._collecting: PredicateIndex[Box] = PredicateIndex()
        #: Filters and constraints of all boxes.
        self.weight = 0

    def __len__(self) -> int:
        return len(self._boxes)

    def __iter__(self) -> Iterator[Box]:
        return iter(self._boxes.values())

    def of(self, app: int) -> list[Box]:
        """The boxes of an application."""
        return list(self._of.get(app, {}).values())

    def room_for(self, app: int) -> bool:
        """Whether an application may have a further box."""
        return len(self._of.get(app, ())) < MOST_OF_AN_APPLICATION

    def get(self, app: int, number: int) -> Box | None:
        """The box of a number, if it is the application's."""
        return self._of.get(app, {}).get(number)

    def add(self, box: Box) -> None:
        self._boxes[box.number] = self._of.setdefault(box.app, {})[box.number] = box
        self.weight += box.weight

    def remove(self, box: Box) -> None:
        self._collecting.remove(box)
        del self._boxes[box.number], self._of[box.app][box.number]
        if not self._of[box.app]:
            del self._of[box.app]
        self.weight -= box.weight

    def begin(self, box: Box, now: float, began_after: int) -> None:
        """Begins the next round; see `Box.began_after`."""
        box.state = BoxState.COLLECTING
        box.round += 1
        box.began_after = began_after
        box.deadline = now + box.lifetime_s
        box.count = box.remote = 0
        box.forwarded_to = frozenset()
        self._collecting.add(box, box.predicate)

    def end(self, box: Box, state: BoxState) -> None:
        """Ends the round; nothing more is delivered."""
        self._collecting.remove(box)
        box.state = state
        box.got.clear()
        box.unsent = False
        for timer in box.timers:
            timer.cancel()
        box.timers.clear()

    def takers(
        self, id_: PublicationId, message: Message, age_s: float, first: float, now: float
    ) -> list[Box]:
        """The boxes to which a publication may be delivered now; see `Box.lacks`."""
        if not self._collecting:
            return []
        return [
            box
            for box in self._collecting.matching(message)
            if age_s <= box.freshness_s and now < box.deadline and box.lacks(id_, first)
        ]
