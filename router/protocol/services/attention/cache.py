"""The publications that a router caches, in the indexes PPT, DPT and OPT (attention paper, section 4.1).

Publications for a subscription, and subscriptions for a publication, are found by the value of one attribute:
a filter with an equality can match only messages that have the attribute with that value. Filters without an
equality are compared one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, nsmallest
from typing import Any, Generic, TypeVar

from router.predicates import Filter, Message, Operator, Predicate, Type, Value, matches, matches_filter
from router.protocol.events import Action
from router.protocol.services.attention import Index, IndexChanged
from router.protocol.services.attention.dissemination import AttentionOptions, PolicyName, Transition

T = TypeVar("T", bound=Hashable)
K = TypeVar("K", bound=Hashable)

#: A publication: the router at which it was uploaded, and a number of that router.
PublicationId = tuple[int, int]
#: An attribute: name, type and value. Of equal Python values of two types, only one matches.
_Attribute = tuple[str, Type, Value]


def _equalities_of(filter_: Filter) -> list[_Attribute]:
    """The attributes that a message must have for the filter to match it."""
    return [
        (each.name, each.type, each.value)
        for each in filter_.constraints
        if each.operator is Operator.EQ and each.value is not None
    ]


def take_out(groups: dict[K, dict[T, Any]], key: K, member: T) -> None:
    """Removes a member of a group, and the group with its last member."""
    members = groups[key]
    del members[member]
    if not members:
        del groups[key]


class PredicateIndex(Generic[T]):
    """Objects with a predicate each, in the order in which they were added."""

    def __init__(self) -> None:
        #: The predicate of each object, and the attributes by which the object is found.
        self._items: dict[T, tuple[Predicate, set[_Attribute]]] = {}
        #: attribute -> object -> whether the equality is a filter's only constraint
        self._by_attribute: dict[_Attribute, dict[T, bool]] = {}
        #: The objects with a filter without an equality.
        self._others: dict[T, None] = {}

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T, predicate: Predicate) -> None:
        """Adds an object, which is not in the index."""
        attributes: set[_Attribute] = set()
        for filter_ in predicate.filters:
            equalities = _equalities_of(filter_)
            if equalities:
                attribute = equalities[0]
                attributes.add(attribute)
                objects = self._by_attribute.setdefault(attribute, {})
                objects[item] = len(filter_.constraints) == 1 or objects.get(item, False)
            else:
                self._others[item] = None
        self._items[item] = predicate, attributes

    def remove(self, item: T) -> None:
        """Removes an object; nothing happens if it is not in the index."""
        _, attributes = self._items.pop(item, (None, ()))
        self._others.pop(item, None)
        for attribute in attributes:
            take_out(self._by_attribute, attribute, item)

    def matching(self, message: Message) -> list[T]:
        """The objects whose predicate matches a message, each once."""
        found: dict[T, None] = {}
        for attribute in message.typed():
            for item, whole in self._by_attribute.get(attribute, {}).items():
                if item not in found and (whole or matches(self._items[item][0], message)):
                    found[item] = None
        for item in self._others:
            if item not in found and matches(self._items[item][0], message):
                found[item] = None
        return list(found)


#: A place in the order of replacement: rank of the index, value of the policy, number of the addition, and
#: the publication, which has another place if this is a former one.
Place = tuple[float, float, int, "Cached"]


@dataclass(slots=True, eq=False)
class Cached:
    """A cached publication.

    Attributes:
        id: see `PublicationId`.
        uploaded_at: when it was uploaded, seconds of this router's clock.
        used_at: when it was cached, delivered or sent last.
        flushed: it came as a copy that another router flushed, and is not flushed a second time.
        index: the index that references it.
        dispatched: of a pending publication: whether it was used for local subscriptions, the paper's DF.
        served: home -> the count of SUBs (`Relay`) when it was sent there through this router.
        uses: how often it was delivered or sent.
        place: in the order of replacement; None: it is not in the cache.
    """

    id: PublicationId
    message: Message
    uploaded_at: float
    used_at: float
    flushed: bool = False
    index: Index = Index.PPT
    dispatched: bool = False
    served: dict[int, int] = field(default_factory=dict)
    uses: int = 0
    place: Place | None = None

    @property
    def untouched(self) -> bool:
        """Whether no subscription of this router ever got it (I2 of docs/explanation/attention.md)."""
        return self.index is Index.OPT or (self.index is Index.PPT and not self.dispatched)


#: Policies by the paper's names (section 4.1.1). A policy gives the place of a publication in an order, the
#: least value first: the order of delivery (selection), or of eviction (replacement).
POLICIES: dict[PolicyName, Callable[[Cached], float]] = {
    "lf": lambda cached: cached.uploaded_at,
    "mf": lambda cached: -cached.uploaded_at,
    "lru": lambda cached: cached.used_at,
    "mru": lambda cached: -cached.used_at,
    "mfu": lambda cached: -cached.uses,
}
#: Place of an index in the order of selection, and in the orders of replacement.
_SELECTED_BY_TYPE = {Index.DPT: 0, Index.OPT: 1, Index.PPT: 2}
_REPLACED_BY_TYPE = {
    "ignored": dict.fromkeys(Index, 0),
    "pending-first": {Index.PPT: 0, Index.OPT: 1, Index.DPT: 2},
    "disseminated-first": {Index.DPT: 0, Index.OPT: 1, Index.PPT: 2},
}


class Cache:
    """The cache of one router.

    Args:
        options: capacity, policies, and whether changes of an index are recorded.

    Attributes:
        sizes: index -> publications that it references.
    """

    def __init__(self, options: AttentionOptions) -> None:
        self._options = options
        self._selection = POLICIES[options.selection]
        self._replacement = POLICIES[options.replacement]
        self._rank = _REPLACED_BY_TYPE[options.replacement_types]
        self._publications: dict[PublicationId, Cached] = {}
        self._by_attribute: dict[_Attribute, dict[Cached, None]] = {}
        #: Places in the order of replacement, some of them former ones.
        self._order: list[Place] = []
        self._added = 0
        self.sizes: Counter[Index] = Counter()

    def __len__(self) -> int:
        return len(self._publications)

    def __iter__(self) -> Iterator[Cached]:
        return iter(self._publications.values())

    def get(self, id_: PublicationId) -> Cached | None:
        return self._publications.get(id_)

    # Changes.

    def add(self, cached: Cached, row: Transition, now: float) -> list[Action]:
        """Adds a publication, in the index of a row that has one; may exceed the capacity until `evict`."""
        assert row.after is not None
        self._publications[cached.id] = cached
        for attribute in cached.message.typed():
            self._by_attribute.setdefault(attribute, {})[cached] = None
        self._added += 1
        cached.index, cached.dispatched = row.after, row.dispatched
        self.sizes[cached.index] += 1
        self._place(cached, self._added)
        return self._changed(cached, None, cached.index, row.name, now)

    def move(self, cached: Cached, row: Transition, now: float) -> list[Action]:
        """Moves a publication of the cache to the index of a row, and counts a use."""
        assert row.after is not None
        before, cached.index, cached.dispatched = cached.index, row.after, row.dispatched
        self.sizes[before] -= 1
        self.sizes[cached.index] += 1
        self.used(cached, now)
        return [] if before is row.after else self._changed(cached, before, row.after, row.name, now)

    def used(self, cached: Cached, now: float) -> None:
        """A publication was delivered or sent."""
        cached.uses += 1
        cached.used_at = now
        place = cached.place
        assert place is not None
        if self._replacement(cached) != place[1] or self._rank[cached.index] != place[0]:
            self._place(cached, place[2])

    def evict(self) -> list[Cached]:
        """Removes the publications that exceed the capacity, by the replacement policy; see `left`."""
        evicted = []
        while len(self._publications) > self._options.cache_publications:
            place = heappop(self._order)
            cached = place[3]
            if cached.place is place:
                self._remove(cached)
                evicted.append(cached)
        return evicted

    def left(self, cached: Cached, cause: str, now: float) -> list[Action]:
        """A publication was evicted, for a cause."""
        return self._changed(cached, cached.index, None, cause, now)

    def admits(self, cached: Cached, index: Index) -> bool:
        """Whether the cache would keep a further publication: it has room, or would replace another first."""
        if len(self._publications) < self._options.cache_publications:
            return True
        while self._order and self._order[0][3].place is not self._order[0]:
            heappop(self._order)
        first = self._order[0] if self._order else None
        return first is not None and (self._rank[index], self._replacement(cached)) > first[:2]

    # Selection.

    def select(
        self,
        predicate: Predicate,
        most: int,
        indexes: Collection[Index],
        oldest_at: float,
        fit: Callable[[Cached], bool],
    ) -> list[Cached]:
        """The publications for a subscription, in the order of selection.

        Args:
            predicate: matches them.
            most: at most so many.
            indexes: those that may be used.
            oldest_at: they were uploaded at this time or later, seconds of this router's clock.
            fit: a further condition.
        """
        found: set[Cached] = set()
        others: list[Filter] = []

        def usable(cached: Cached) -> bool:
            recent = cached.uploaded_at >= oldest_at
            return recent and cached.index in indexes and cached not in found and fit(cached)

        for filter_ in predicate:
            smallest = self._smallest(filter_)
            if smallest is None:
                others.append(filter_)
            elif len(filter_) == 1:
                found.update(filter(usable, smallest))
            else:
                found.update(
                    each for each in smallest if usable(each) and matches_filter(filter_, each.message)
                )
        if others:
            found.update(
                each
                for each in self
                if usable(each) and any(matches_filter(filter_, each.message) for filter_ in others)
            )
        return nsmallest(most, found, key=self._selected)

    def comparisons(self, predicate: Predicate) -> int:
        """About how many filters and constraints `select` compares with a publication."""
        found = 0
        for filter_ in predicate:
            smallest = self._smallest(filter_)
            found += (1 + len(filter_)) * len(self if smallest is None else smallest)
        return found

    def _smallest(self, filter_: Filter) -> Collection[Cached] | None:
        """The publications that a filter may match, by one of its equalities; None: it has no equality."""
        buckets = [self._by_attribute.get(each, {}) for each in _equalities_of(filter_)]
        return min(buckets, key=len, default=None)

    def _selected(self, cached: Cached) -> tuple[float, float, PublicationId]:
        rank = _SELECTED_BY_TYPE[cached.index] if self._options.selection_types else 0
        return rank, self._selection(cached), cached.id

    # Replacement.

    def _remove(self, cached: Cached) -> None:
        del self._publications[cached.id]
        self.sizes[cached.index] -= 1
        for attribute in cached.message.typed():
            take_out(self._by_attribute, attribute, cached)
        cached.place = None

    def _place(self, cached: Cached, number: int) -> None:
        place = cached.place = (self._rank[cached.index], self._replacement(cached), number, cached)
        heappush(self._order, place)
        if len(self._order) > 4 * len(self._publications) + 64:
            self._order = [each.place for each in self if each.place is not None]
            heapify(self._order)

    def _changed(
        self, cached: Cached, before: Index | None, after: Index | None, cause: str, now: float
    ) -> list[Action]:
        if not self._options.record_caches:
            return []
        return [IndexChanged(*cached.id, before, after, cause, now)]
