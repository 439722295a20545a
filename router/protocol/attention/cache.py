"""The publications that a router caches, in the indexes PPT, DPT and OPT (attention paper, section 4.1).

Each publication is in one index. Selection and replacement order them by a policy
(`router.protocol.attention.policies`), by index first if the options say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator
from functools import partial
from heapq import heapify, heappop, heappush, nsmallest

from router.predicates.model import Filter, Message, Predicate
from router.predicates.semantics import matches_filter
from router.protocol.attention.events import Index
from router.protocol.attention.index import Attribute, equalities_of
from router.protocol.attention.options import AttentionOptions
from router.protocol.attention.policies import POLICIES, Policy
from router.protocol.attention.turns import COMPARISONS_A_TURN

#: A publication: the router at which it was uploaded, and a number of that router.
PublicationId = tuple[int, int]

#: Place of an index in the order of selection, and in the orders of replacement.
_SELECTED_BY_TYPE = {Index.DPT: 0, Index.OPT: 1, Index.PPT: 2}
_REPLACED_BY_TYPE = {
    "ignored": dict.fromkeys(Index, 0),
    "pending-first": {Index.PPT: 0, Index.OPT: 1, Index.DPT: 2},
    "disseminated-first": {Index.DPT: 0, Index.OPT: 1, Index.PPT: 2},
}


#: A place in the order of replacement: rank of the index, value of the policy, number of the addition, and
#: the publication, which has another place if this is a former one.
Place = tuple[float, float, int, "Cached"]


class Cached:
    """A cached publication.

    Attributes:
        id: see `PublicationId`.
        uploaded_at: when it was uploaded, seconds of this router's clock.
        index: the index that references it.
        dispatched: of a pending publication: whether it was used for local subscriptions, the paper's DF.
        flushed: it came as a copy that another router flushed, and is not flushed a second time.
        served: home -> the count of SUBs (`Relay`) when it was sent there through this router.
        uses: how often it was delivered or sent.
        used_at: when it was cached, delivered or sent last.
    """

    __slots__ = (
        "dispatched",
        "flushed",
        "id",
        "index",
        "message",
        "place",
        "served",
        "uploaded_at",
        "used_at",
        "uses",
    )

    def __init__(
        self, id_: PublicationId, message: Message, uploaded_at: float, now: float, flushed: bool = False
    ) -> None:
        self.id = id_
        self.message = message
        self.uploaded_at = uploaded_at
        self.index = Index.PPT
        self.dispatched = False
        self.flushed = flushed
        self.served: dict[int, int] = {}
        self.uses = 0
        self.used_at = now
        #: Its place in the order of replacement; None: it is not in the cache.
        self.place: Place | None = None

    @property
    def untouched(self) -> bool:
        """Whether no subscription of this router ever got it (I2 of docs/attention.md)."""
        return self.index is Index.OPT or (self.index is Index.PPT and not self.dispatched)


class Cache:
    """The cache of one router.

    Args:
        options: capacity and policies.
    """

    def __init__(self, options: AttentionOptions) -> None:
        self._capacity = options.cache_publications
        self._selection = POLICIES[options.selection]
        self._selection_types = options.selection_types
        self._replacement: Policy = POLICIES[options.replacement]
        self._rank = _REPLACED_BY_TYPE[options.replacement_types]
        self._publications: dict[PublicationId, Cached] = {}
        self._by_attribute: dict[Attribute, dict[Cached, None]] = {}
        #: Places in the order of replacement, some of them former ones.
        self._order: list[Place] = []
        self._added = 0
        #: Constraints, of equalities that are all of a filter the publications, that were compared so far.
        self.compared = 0
        #: Index -> publications in it.
        self.sizes: Counter[Index] = Counter()

    def __len__(self) -> int:
        return len(self._publications)

    def __iter__(self) -> Iterator[Cached]:
        return iter(self._publications.values())

    def get(self, id_: PublicationId) -> Cached | None:
        return self._publications.get(id_)

    def add(self, cached: Cached, index: Index, dispatched: bool = False) -> None:
        """Adds a publication that is not in the cache, which may exceed its capacity until `evict`."""
        self._publications[cached.id] = cached
        for attribute in cached.message.typed():
            self._by_attribute.setdefault(attribute, {})[cached] = None
        self._added += 1
        cached.index, cached.dispatched = index, dispatched
        self.sizes[index] += 1
        self._place(cached, self._added)

    def move(self, cached: Cached, index: Index, dispatched: bool = False) -> None:
        """Moves a publication of the cache to an index."""
        self.sizes[cached.index] -= 1
        self.sizes[index] += 1
        cached.index, cached.dispatched = index, dispatched
        self._placed_again(cached)

    def used(self, cached: Cached, now: float) -> None:
        """A publication was delivered or sent."""
        cached.uses += 1
        cached.used_at = now
        self._placed_again(cached)

    def remove(self, cached: Cached) -> None:
        """Removes a publication of the cache."""
        del self._publications[cached.id]
        self.sizes[cached.index] -= 1
        for attribute in cached.message.typed():
            objects = self._by_attribute[attribute]
            del objects[cached]
            if not objects:
                del self._by_attribute[attribute]
        cached.place = None

    def evict(self) -> list[Cached]:
        """Removes the publications that exceed the capacity, by the replacement policy."""
        evicted = []
        while len(self._publications) > self._capacity:
            place = heappop(self._order)
            cached = place[3]
            if cached.place is place:
                self.remove(cached)
                evicted.append(cached)
        return evicted

    def admits(self, cached: Cached, index: Index) -> bool:
        """Whether the cache would keep a further publication: it has room, or would replace another first."""
        if len(self._publications) < self._capacity:
            return True
        while self._order and self._order[0][3].place is not self._order[0]:
            heappop(self._order)
        first = self._order[0] if self._order else None
        return first is not None and (self._rank[index], self._replacement(cached)) > first[:2]

    def select(
        self,
        predicate: Predicate,
        most: int,
        indexes: Collection[Index],
        oldest_at: float,
        fit: Callable[[Cached], bool],
    ) -> Generator[None, None, list[Cached]]:
        """The publications for a subscription, in the order of selection.

        Yields where the turn of the router should end; publications may leave the cache or change their index
        in between.

        Args:
            predicate: matches them.
            most: at most so many.
            indexes: those that may be used.
            oldest_at: they were uploaded at this time or later, seconds of this router's clock.
            fit: a further condition.
        """
        found: list[Cached] = []
        for batch in self._matching(predicate):
            if not batch:
                yield
            found += [
                cached
                for cached in batch
                if cached.index in indexes and cached.uploaded_at >= oldest_at and fit(cached)
            ]
        return nsmallest(most, found, key=self._selected) if found else found

    def _selected(self, cached: Cached) -> tuple[float, float, PublicationId]:
        rank = _SELECTED_BY_TYPE[cached.index] if self._selection_types else 0
        return rank, self._selection(cached), cached.id

    def _matching(self, predicate: Predicate) -> Iterator[list[Cached]]:
        """The publications that match a predicate, each once; an empty list after each turn's comparisons."""
        found: set[Cached] = set()
        enough = self.compared + COMPARISONS_A_TURN
        for candidates, weight, matches in self._candidates(predicate):
            if matches is None and len(candidates) < enough - self.compared and not found:
                # All of them match, in this turn.
                self.compared += len(candidates)
                batch = list(candidates)
                if len(predicate) > 1:
                    found.update(batch)
            else:
                batch = []
                for cached in tuple(candidates):
                    self.compared += weight
                    if self.compared >= enough:
                        yield from (batch, []) if batch else ([],)
                        batch = []
                        enough = self.compared + COMPARISONS_A_TURN
                    if cached not in found and (matches is None or matches(cached.message)):
                        found.add(cached)
                        batch.append(cached)
            if batch:
                yield batch

    def _candidates(
        self, predicate: Predicate
    ) -> Iterator[tuple[Collection[Cached], int, Callable[[Message], bool] | None]]:
        """Yields groups of publications that may match a predicate.

        With each group comes the number of constraints that are compared with a publication, and the function
        that decides whether a message matches; None: all of the group match. A group is of one filter with an
        equality; the last is the whole cache, for the filters without one.
        """
        others: list[Filter] = []
        for filter_ in predicate:
            buckets = [self._by_attribute.get(each, {}) for each in equalities_of(filter_)]
            smallest = min(buckets, key=len, default=None)
            if smallest is None:
                others.append(filter_)
            else:
                weight = len(filter_)
                yield smallest, weight, None if weight == 1 else partial(matches_filter, filter_)
        if others:
            weight = sum(map(len, others)) or 1
            every = self._publications.values()
            yield every, weight, lambda message: any(matches_filter(each, message) for each in others)

    def _place(self, cached: Cached, number: int) -> None:
        place = cached.place = (self._rank[cached.index], self._replacement(cached), number, cached)
        heappush(self._order, place)
        if len(self._order) > 4 * len(self._publications) + 64:
            self._order = [each.place for each in self if each.place is not None]
            heapify(self._order)

    def _placed_again(self, cached: Cached) -> None:
        place = cached.place
        assert place is not None
        if self._replacement(cached) != place[1] or self._rank[cached.index] != place[0]:
            self._place(cached, place[2])
