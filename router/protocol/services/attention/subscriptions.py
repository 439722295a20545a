"""The subscriptions that a router knows: its own, with boxes, and those of other routers, by their SUBs.

Attention paper, sections 4.1 and 4.2. The table of other routers' subscriptions is separate from the
predicates p_i of routing: covering and merging are unsound for subscriptions with different lifetimes and
maxima (section 6.2.2), so every subscription is an entry of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import inf

from router.predicates import Message, Predicate
from router.protocol.context import Timer, Timers
from router.protocol.events import Action
from router.protocol.services.attention.cache import PredicateIndex, PublicationId, take_out
from router.wire.frames import Frame, Subscription

#: Filters and constraints of one subscription: each is compared with many publications.
MAX_WEIGHT = 128
#: Subscriptions of one application, all of which end when it leaves, with up to three actions each.
MOST_OF_AN_APPLICATION = 1024
#: Entries that are removed, and rounds that end, in one tick when their deadlines have passed.
ENDED_AT_ONCE = 512
#: Least time between two alarms for deadlines of entries, seconds. An alarm for each of them would wake a
#: router as often as SUBs come; nothing is sent to an entry behind its deadline, and a lookup removes it.
_REST_S = 1.0
#: See `Box.lacks`.
NEVER, UNKNOWN = inf, 0

#: A subscription: its home, and its number there.
SubscriptionId = tuple[int, int]


def weight_of(predicate: Predicate) -> int:
    """The filters and constraints of a predicate, at least 1: the work of one comparison with a message."""
    return max(1, len(predicate) + sum(map(len, predicate)))


@dataclass(slots=True, eq=False)
class Walk:
    """A SUB that asks the children of a router one after the other (`fan_out = "sequential"`).

    Attributes:
        frame: the SUB as it came here, or was issued, without the publications that it was offered: children
            send these back with it, and a router need not keep them.
        children: interfaces of the children that have not sent it back, in order; the first is asked now.
        asked: publications for which that child was asked.
        moved: a child has sent it back since the home last considered whether to repeat it.
    """

    frame: Frame
    children: list[int]
    asked: int = 0
    moved: bool = False

    @classmethod
    def of(cls, frame: Frame, body: Subscription, children: Iterable[int]) -> Walk:
        """The walk that begins; each SUB begins with another child, so that no child is exhausted first."""
        ordered = sorted(children)
        first = body.nonce % max(1, len(ordered))
        return cls(replace(frame, body=replace(body, offered=())), ordered[first:] + ordered[:first])

    @property
    def body(self) -> Subscription:
        assert isinstance(self.frame.body, Subscription)
        return self.frame.body

    def is_of(self, frame: Frame) -> bool:
        """Whether a SUB is that of the walk."""
        body, mine = frame.body, self.body
        assert isinstance(body, Subscription)
        return (frame.epoch, body.round, body.nonce) == (self.frame.epoch, mine.round, mine.nonce)

    def came_back(self, interface: int, frame: Frame) -> bool:
        """Takes the SUB back from a child; False: the child was not asked, or it is another SUB."""
        if not self.is_of(frame) or self.children[:1] != [interface]:
            return False
        del self.children[0]
        self.moved = True
        return True


@dataclass(slots=True, eq=False)
class Box:
    """The box of a subscription that was registered at this router: counts what is delivered in a round.

    Attributes:
        number: of the subscription.
        app: the application.
        max, lifetime_s, freshness_s: see `Register`.
        weight: filters and constraints of its predicate.
        round: number of the round; `Boxes.begin` adds 1 before the first.
        collecting: the round is not over; it ends when `max` publications were delivered, when the lifetime
            has passed, or when the application withdraws the subscription.
        began_after: how many publications the router had delivered for the first time when the round began.
        deadline: the end of the round, seconds of the router's clock.
        got: the publications that were delivered in the round; empty when it is over.
        count, remote: how many were delivered in the round, and how many of them another router sent.
        ever: the publications of all rounds; None: they are not remembered (`history`), or there were rounds
            before a restart of the router, of which nothing is known.
        forwarded_to: the interfaces through which the SUBs of the round went.
        walk: the SUB that asks one child after the other; None: there is none, or it has come back from all.
        unsent: the SUB of the round waits for the first epoch.
        timers: of the round.
    """

    number: int
    app: int
    predicate: Predicate
    max: int
    lifetime_s: float
    freshness_s: float
    weight: int
    round: int
    ever: set[PublicationId] | None
    collecting: bool = False
    began_after: int = 0
    deadline: float = 0.0
    got: set[PublicationId] = field(default_factory=set)
    count: int = 0
    remote: int = 0
    forwarded_to: frozenset[int] = frozenset()
    walk: Walk | None = None
    unsent: bool = False
    timers: list[Timer] = field(default_factory=list)

    @property
    def refreshed(self) -> bool:
        """Whether former rounds may have had publications."""
        return self.round > 0

    @property
    def remaining(self) -> int:
        """How many publications the round may still get."""
        return self.max - self.count

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
    """The boxes of one router, by number; those that collect are found by a publication.

    Attributes:
        weight: filters and constraints of all boxes.
    """

    def __init__(self) -> None:
        self._boxes: dict[int, Box] = {}
        #: Application -> its boxes, by number.
        self._of: dict[int, dict[int, Box]] = {}
        self._collecting: PredicateIndex[Box] = PredicateIndex()
        self.weight = 0

    def __len__(self) -> int:
        return len(self._boxes)

    def __iter__(self) -> Iterator[Box]:
        return iter(self._boxes.values())

    def of(self, app: int) -> list[Box]:
        return list(self._of.get(app, {}).values())

    def get(self, app: int, number: int) -> Box | None:
        """The box of a number, if it is the application's."""
        return self._of.get(app, {}).get(number)

    def numbered(self, number: int) -> Box | None:
        return self._boxes.get(number)

    def add(self, box: Box) -> None:
        self._boxes[box.number] = self._of.setdefault(box.app, {})[box.number] = box
        self.weight += box.weight

    def remove(self, box: Box) -> None:
        self._collecting.remove(box)
        del self._boxes[box.number]
        take_out(self._of, box.app, box.number)
        self.weight -= box.weight

    def begin(self, box: Box, now: float, began_after: int) -> None:
        """Begins the next round; see `Box.began_after`."""
        box.collecting = True
        box.round += 1
        box.began_after = began_after
        box.deadline = now + box.lifetime_s
        box.count = box.remote = 0
        box.forwarded_to = frozenset()
        self._collecting.add(box, box.predicate)

    def end(self, box: Box) -> None:
        """Ends the round; nothing more is delivered."""
        self._collecting.remove(box)
        box.collecting = False
        box.got.clear()
        box.walk, box.unsent = None, False
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


@dataclass(slots=True, eq=False)
class Entry:
    """A subscription of another router, until its deadline.

    Attributes:
        id: see `SubscriptionId`.
        round: the round of its last SUB.
        nonces: of the SUBs of the round, few.
        deadline: the end of the round, seconds of this router's clock.
        freshness_s: greatest age of a publication.
        remaining: publications that it lacks, as far as this router knows.
        weight: filters and constraints of its predicate.
        interface: the SUB came in on it.
        forwarded_to: the interfaces through which the SUB went on.
        active: publications are sent to it. An entry that is satisfied stays, inactive, so that a copy of its
            SUB does not revive it.
        walk: the SUB that asks one child after the other; None: it is still served here, or asks all at once.
        push, rest, end: the timers that begin or go on with its push, that go on serving its SUB, and that
            remove it.
    """

    id: SubscriptionId
    round: int
    predicate: Predicate
    deadline: float
    freshness_s: float
    remaining: int
    weight: int
    interface: int
    nonces: tuple[int, ...] = ()
    forwarded_to: frozenset[int] = frozenset()
    active: bool = False
    walk: Walk | None = None
    push: Timer | None = None
    rest: Timer | None = None
    end: Timer | None = None

    def gave_up(self, body: Subscription) -> bool:
        """Whether a SUB that comes back is one that a newer SUB has replaced, or whose walk is over."""
        if body.round != self.round:
            return body.round < self.round
        over = self.walk is not None and not self.walk.children
        return body.nonce in (self.nonces if over else self.nonces[:-1])


class SubscriptionTable:
    """The entries of one router; those that are active are found by a publication.

    Attributes:
        weight: filters and constraints of all entries.
        of_interface, weight_of_interface: interface -> the entries whose SUB came in on it, and their weight.
    """

    def __init__(self) -> None:
        self._entries: dict[SubscriptionId, Entry] = {}
        self._active: PredicateIndex[Entry] = PredicateIndex()
        self._of_home: dict[int, dict[Entry, None]] = {}
        self._timers = Timers(ENDED_AT_ONCE)
        #: No alarm before.
        self._rested_at = 0.0
        self.weight = 0
        self.of_interface: Counter[int] = Counter()
        self.weight_of_interface: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def get(self, id_: SubscriptionId, now: float) -> Entry | None:
        """The entry of a subscription, if its deadline has not passed."""
        self._timers.tick(now)
        entry = self._entries.get(id_)
        return entry if entry is None or now < entry.deadline else None

    def next_deadline(self) -> float | None:
        """When `tick` is to be called at the latest; None: there is no entry."""
        at = self._timers.next_deadline()
        return None if at is None else max(at, self._rested_at)

    def tick(self, now: float) -> None:
        """Removes entries whose deadlines have passed; many of them in several ticks."""
        at = self._timers.next_deadline()
        if at is not None and at <= now:
            self._timers.tick(now)
            at = self._timers.next_deadline()
            self._rested_at = now if at is not None and at <= now else now + _REST_S

    def of_home(self, home: int) -> Iterable[Entry]:
        return self._of_home.get(home, ())

    def add(self, entry: Entry) -> None:
        """Adds an entry, active, in the place of one of the same subscription."""
        before = self._entries.get(entry.id)
        if before is not None:
            self.remove(before)
        self._entries[entry.id] = entry
        self._of_home.setdefault(entry.id[0], {})[entry] = None
        self._count(entry, 1)
        entry.end = self._timers.set(entry.deadline, lambda _: self.remove(entry))
        entry.active = True
        self._active.add(entry, entry.predicate)

    def deactivate(self, entry: Entry) -> None:
        """Makes no further publication go to a subscription."""
        if entry.active:
            entry.active = False
            self._active.remove(entry)

    def remove(self, entry: Entry) -> list[Action]:
        """Removes an entry; no actions."""
        self.deactivate(entry)
        del self._entries[entry.id]
        take_out(self._of_home, entry.id[0], entry)
        self._count(entry, -1)
        for timer in (entry.push, entry.rest, entry.end):
            if timer is not None:
                timer.cancel()
        return []

    def _count(self, entry: Entry, sign: int) -> None:
        self.weight += sign * entry.weight
        self.of_interface[entry.interface] += sign
        self.weight_of_interface[entry.interface] += sign * entry.weight

    def matching(self, message: Message, age_s: float, now: float) -> list[Entry]:
        """The active entries to which a publication of this age may go."""
        self._timers.tick(now)
        if not self._active:
            return []
        return [
            entry
            for entry in self._active.matching(message)
            if age_s <= entry.freshness_s and now < entry.deadline
        ]
