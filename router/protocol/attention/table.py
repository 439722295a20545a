"""The subscriptions of other routers that this router knows, by their SUBs (attention paper, section 4.2).

The table is separate from the predicates p_i of routing: covering and merging are unsound for subscriptions
with different lifetimes and maxima (section 6.2.2), so every subscription is an entry of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from math import inf

from router.predicates.model import Message, Predicate
from router.protocol.attention.deadlines import FEW, Deadlines
from router.protocol.attention.index import PredicateIndex
from router.protocol.attention.timers import Timer
from router.protocol.attention.turns import DEADLINES_A_TURN

#: Least time between two alarms for deadlines, seconds. An alarm for each of them would wake a router as
#: often as SUBs come; nothing is sent to an entry behind its deadline, and the next lookup removes it.
_REST_S = 1.0

#: A subscription: its home, and its number there.
SubscriptionId = tuple[int, int]


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
        timers: to be cancelled with it.
    """

    __slots__ = (
        "active",
        "deadline",
        "forwarded_to",
        "freshness_s",
        "id",
        "interface",
        "nonces",
        "predicate",
        "remaining",
        "round",
        "timers",
        "weight",
    )

    def __init__(
        self,
        id_: SubscriptionId,
        round_: int,
        predicate: Predicate,
        deadline: float,
        freshness_s: float,
        remaining: int,
        weight: int,
        interface: int,
    ) -> None:
        self.id = id_
        self.round = round_
        self.predicate = predicate
        self.deadline = deadline
        self.freshness_s = freshness_s
        self.remaining = remaining
        self.weight = weight
        self.interface = interface
        self.nonces: tuple[int, ...] = ()
        self.forwarded_to: frozenset[int] = frozenset()
        self.active = False
        self.timers: tuple[Timer, ...] = ()


class SubscriptionTable:
    """The entries of one router; those that are active are found by a publication."""

    def __init__(self) -> None:
        self._entries: dict[SubscriptionId, Entry] = {}
        self._active: PredicateIndex[Entry] = PredicateIndex()
        self._of_home: dict[int, dict[Entry, None]] = {}
        #: Entries, some of which are gone: at most as many as others, and a few.
        self._ends: Deadlines[Entry] = Deadlines()
        #: The deadline of the first of them; infinity: there is none.
        self._end = inf
        #: No alarm before.
        self._rested_at = 0.0
        #: Filters and constraints of all entries.
        self.weight = 0
        #: Interface -> the entries whose SUB came in on it, and their filters and constraints.
        self.of_interface: Counter[int] = Counter()
        self.weight_of_interface: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    @property
    def compared(self) -> int:
        """The constraints that were compared with publications so far."""
        return self._active.compared

    def get(self, id_: SubscriptionId, now: float) -> Entry | None:
        """The entry of a subscription, if its deadline has not passed."""
        if self._end <= now:
            self._expire(now)
        entry = self._entries.get(id_)
        return entry if entry is None or now < entry.deadline else None

    def next_deadline(self) -> float | None:
        """When `tick` is to be called at the latest; None: there is no entry."""
        return None if self._end == inf else max(self._end, self._rested_at)

    def tick(self, now: float) -> None:
        """Removes entries whose deadlines have passed, as many as one turn allows."""
        if self._end <= now:
            self._expire(now)
            # What a turn leaves is due at once.
            self._rested_at = now if self._end <= now else now + _REST_S

    def _expire(self, now: float) -> None:
        for _ in range(DEADLINES_A_TURN):
            if self._end > now:
                return
            entry = self._ends.take()
            self._ended()
            if self._is_kept(entry):
                self.remove(entry)

    def _ended(self) -> None:
        end = self._ends.next()
        self._end = inf if end is None else end

    def _is_kept(self, entry: Entry) -> bool:
        return self._entries.get(entry.id) is entry

    def of_home(self, home: int) -> Iterable[Entry]:
        """The entries of a router."""
        return self._of_home.get(home, ())

    def add(self, entry: Entry) -> None:
        """Adds an entry, inactive, in the place of one of the same subscription."""
        before = self._entries.get(entry.id)
        if before is not None:
            self.remove(before)
        self._entries[entry.id] = entry
        self._of_home.setdefault(entry.id[0], {})[entry] = None
        self._add(entry, 1)
        self._ends.add(entry.deadline, entry)
        if len(self._ends) >= 2 * len(self._entries) + FEW:
            self._ends.keep_only(self._is_kept)
            self._ended()
        self._end = min(self._end, entry.deadline)

    def activate(self, entry: Entry) -> None:
        """Makes publications go to a subscription."""
        entry.active = True
        self._active.add(entry, entry.predicate)

    def deactivate(self, entry: Entry) -> None:
        """Makes no further publication go to a subscription."""
        if entry.active:
            entry.active = False
            self._active.remove(entry)

    def remove(self, entry: Entry) -> None:
        self.deactivate(entry)
        del self._entries[entry.id]
        of_home = self._of_home[entry.id[0]]
        del of_home[entry]
        if not of_home:
            del self._of_home[entry.id[0]]
        self._add(entry, -1)
        for timer in entry.timers:
            timer.cancel()

    def _add(self, entry: Entry, sign: int) -> None:
        self.weight += sign * entry.weight
        self.of_interface[entry.interface] += sign
        self.weight_of_interface[entry.interface] += sign * entry.weight

    def matching(self, message: Message, age_s: float, now: float) -> list[Entry]:
        """The active entries to which a publication of this age may go."""
        if self._end <= now:
            self._expire(now)
        if not self._active:
            return []
        return [
            entry
            for entry in self._active.matching(message)
            if age_s <= entry.freshness_s and now < entry.deadline
        ]
