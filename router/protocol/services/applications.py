"""The predicates of the local applications, and p0, their disjunction (protocol paper, section 3.3)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from router.content.base import Content
from router.predicates.covering.bitset import bits_of
from router.predicates.covering.budget import DEFAULT_LIMITS, PredicateLimits
from router.predicates.covering.builder import PredicateBuilder
from router.predicates.model import Filter, Message, Predicate
from router.protocol.routing import RoutingTable
from router.wire.addresses import LOCAL_INTERFACE

#: Filters that are compared by equality in one step.
_COMPARED = 500
#: Steps of a change of p0; returns whether p0 changed.
Steps = Generator[None, None, bool]


class ApplicationPredicates:
    """Keeps p0 of a routing table in line with the predicates of applications.

    Args:
        routing: the table.
        content: what predicates and messages are.
        limits: `turn_weight` and `turn_pairs` bound a step of a change, `filter_weight` bounds a filter.

    Attributes:
        changes: how often the answer of `by_application` has changed.
    """

    def __init__(
        self, routing: RoutingTable, content: Content, limits: PredicateLimits = DEFAULT_LIMITS
    ) -> None:
        self.changes = 0
        self._routing = routing
        self._content = content
        self._pool = content.pool
        self._limits = limits
        self._predicates: dict[int, Predicate] = {}
        #: Applications that left, whose predicates p0 still has.
        self._left: set[int] = set()

    def is_small(self, app: int, predicate: Predicate) -> bool:
        """Whether the predicate of an application, and what it replaces, are read in one turn."""
        before = self._predicates.get(app, self._content.nothing)
        return self._content.weight(predicate) + self._content.weight(before) <= self._limits.turn_weight

    def set(self, app: int, predicate: Predicate) -> bool:
        """Overwrites the predicate of an application.

        Returns True if p0 changed.

        Raises:
            ValueError: see `change`.
        """
        steps = self.change(app, predicate)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return bool(end.value)

    def change(self, app: int, predicate: Predicate) -> Steps:
        """Overwrites the predicate of an application in steps, the last of which changes p0.

        Other changes must not be made meanwhile.

        Raises:
            ValueError: a filter is heavier than `filter_weight`; nothing has changed.
        """
        before = self._predicates.get(app, self._content.nothing)
        if before == predicate:
            return False
        fresh = yield from _without(predicate, before)
        gone = yield from _without(before, predicate)
        if self._content.widens:
            yield from self._check(fresh)
        local = self._routing.copy_of(LOCAL_INTERFACE)
        if not gone or (yield from self._covered(gone, fresh)):
            # It has grown, as it does with each subscription: p0 grows with it, whatever its size.
            yield from self._unite(local, fresh)
        else:
            local = self._content.builder()
            yield from self._unite(local, chain.from_iterable({**self._predicates, app: predicate}.values()))
        # Other parts ask for p0 in canonical order when it has changed.
        _ = local.predicate
        yield
        self.changes += 1
        self._left.discard(app)
        if predicate:
            self._predicates[app] = predicate
        else:
            del self._predicates[app]
        return self._routing.replace(LOCAL_INTERFACE, local)

    def by_application(self) -> Mapping[int, Predicate]:
        """The predicates that select something, by application, in the order of `selecting`."""
        if not self._left:
            return self._predicates
        return {app: predicate for app, predicate in self._predicates.items() if app not in self._left}

    def leave(self, app: int) -> None:
        """An application left: `selecting` no longer names it."""
        if app in self._predicates:
            self._left.add(app)
            self.changes += 1

    def selecting(self, message: Message) -> tuple[int, ...]:
        """The applications whose own predicates select `message`."""
        selects, left = self._content.selects, self._left
        return tuple(
            app
            for app, predicate in self._predicates.items()
            if selects(predicate, message) and app not in left
        )

    def _check(self, filters: Sequence[Filter]) -> Iterator[None]:
        most, weight_of = self._limits.filter_weight, self._content.weight_of
        for start in range(0, len(filters), _COMPARED):
            for filter_ in filters[start : start + _COMPARED]:
                weight = weight_of(filter_)
                if weight > most:
                    raise ValueError(
                        f"a filter has the weight {weight}; at most {most} ([protocol] filter_weight)"
                    )
            yield

    def _parts(self, filters: Iterable[Filter]) -> Iterator[Predicate]:
        """Divides filters into predicates of at most the weight of a turn, or of a single filter."""
        part: list[Filter] = []
        weight = 0
        for filter_ in filters:
            own = self._content.weight_of(filter_)
            if part and weight + own > self._limits.turn_weight:
                yield self._content.predicate(part)
                part, weight = [], 0
            part.append(filter_)
            weight += own
        if part:
            yield self._content.predicate(part)

    def _covered(self, gone: Iterable[Filter], fresh: Iterable[Filter]) -> Steps:
        """Whether the fresh filters are known to cover those that are gone."""
        grown = self._content.builder()
        yield from self._unite(grown, fresh)
        for part in self._parts(gone):
            with self._pool.bounded(self._limits.turn_pairs):
                if not grown.covers(part):
                    return False
            yield
        return True

    def _unite(self, union: PredicateBuilder, filters: Iterable[Filter]) -> Iterator[None]:
        """`union` <- `union` or the filters."""
        pool, limits = self._pool, self._limits
        for part in self._parts(filters):
            numbers = pool.numbers(part)
            # The pool keeps them meanwhile.
            held = self._content.builder(members=bits_of(numbers))
            self._content.encode_ahead(held.members)
            yield
            searched = 0
            while searched < len(numbers):
                searched = pool.search(numbers, searched, limits.turn_weight)
                yield
            with pool.bounded(limits.turn_pairs):
                union.add(part)
            yield


def _without(predicate: Predicate, other: Predicate) -> Generator[None, None, list[Filter]]:
    """The filters of `predicate` that `other` lacks, in order."""
    known: set[Filter] = set()
    for start in range(0, len(other), _COMPARED):
        known.update(other.filters[start : start + _COMPARED])
        yield
    found: list[Filter] = []
    for start in range(0, len(predicate), _COMPARED):
        found += [each for each in predicate.filters[start : start + _COMPARED] if each not in known]
        yield
    return found
