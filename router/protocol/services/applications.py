"""The predicates of the local applications, and p0, their disjunction (protocol paper, section 3.3)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
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
#: Steps in which filters of the weight of a turn are added to p0, and considered as many pairs of filters.
_PARTS = 4
#: A change of the weight of a turn, divided by this, is made in one turn.
_SMALL = 4
#: Pairs that a step considers at least, if a turn may: with a few it would answer nothing, and its answers
#: would depend on the relations that others have looked up.
_FEWEST_PAIRS = 500
#: Steps of comparing a message with predicates of applications in one turn, some 2 ms.
_SELECTING = 10_000
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
        #: The weights of the predicates, and their sum.
        self._weights: dict[int, int] = {}
        self._weight = 0
        #: The answer of `selecting` for the message of the last `search` that ended.
        self._found: tuple[Message, tuple[int, ...]] | None = None
        #: Applications that left, whose predicates p0 still has.
        self._left: set[int] = set()

    def is_small(self, app: int, predicate: Predicate) -> bool:
        """Whether one turn suffices to overwrite the predicate of an application.

        The turn reads the predicate and what it replaces. If a filter goes, the turn may also unite the
        predicates of all applications a second time.
        """
        before = self._predicates.get(app, self._content.nothing)
        # In that turn are the steps that otherwise take one each: reading, comparison, relations, union.
        most = self._limits.turn_weight // _SMALL
        if len(predicate) + len(before) > most:
            return False  # The weight of a filter is at least 1, and to add up many takes long.
        if self._content.weight(predicate) + self._content.weight(before) > most:
            return False
        return self._weight <= most or set(before.filters).issubset(predicate.filters)

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
            ValueError: a filter is heavier than `filter_weight`, or the predicate is heavier than
                `predicate_weight` or has more than `predicate_filters` filters: other routers would widen it.
                Nothing has changed.
        """
        before = self._predicates.get(app, self._content.nothing)
        if before == predicate:
            return False
        weight = yield from self._check(predicate)
        fresh = yield from _without(predicate, before)
        gone = yield from _without(before, predicate)
        leaving: set[int] = set()
        local = self._routing.copy_of(LOCAL_INTERFACE)
        if not gone or (yield from self._covered(gone, fresh)):
            # It has grown, as it does with each subscription: p0 grows with it, whatever its size.
            yield from self._unite(local, fresh)
        else:
            # The predicates of all applications that have left go at once: each would take as long.
            leaving = self._left - {app}
            kept = {**self._predicates, app: predicate}
            local = self._content.builder()
            yield from self._unite(
                local, chain.from_iterable(kept[each] for each in kept if each not in leaving)
            )
        # Other parts ask for p0 in canonical order when it has changed.
        _ = local.predicate
        yield
        self.changes += 1
        self._left -= {app, *leaving}
        for each in leaving if predicate else {app, *leaving}:
            del self._predicates[each]
            self._weight -= self._weights.pop(each)
        if predicate:
            self._predicates[app] = predicate
            self._weight += weight - self._weights.get(app, 0)
            self._weights[app] = weight
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
        """The applications whose own predicates select `message`.

        After a `search` for it: those that it found, and that have not left since.
        """
        selects, left = self._content.selects, self._left
        if self._found is not None and self._found[0] is message:
            found, self._found = self._found[1], None
            return tuple(app for app in found if app in self._predicates and app not in left)
        return tuple(
            app
            for app, predicate in self._predicates.items()
            if selects(predicate, message) and app not in left
        )

    def search(self, message: Message) -> Iterator[None] | None:
        """The work to be done, turn by turn, before `selecting` is asked about a message.

        The predicates are those at its begin.

        Returns:
            None: there is none, `selecting` answers within a turn.
        """
        most = self._content.most_steps(self._weight, message)
        return self._search(message) if most > _SELECTING else None

    def _search(self, message: Message) -> Iterator[None]:
        found, left = [], _SELECTING
        for app, predicate in tuple(self.by_application().items()):
            comparing = self._content.selecting(predicate, message)
            while True:
                try:
                    steps = next(comparing)
                except StopIteration as end:
                    if end.value:
                        found.append(app)
                    break
                if steps > left:
                    yield
                    left = _SELECTING
                left -= steps
        self._found = message, tuple(found)

    def _check(self, predicate: Predicate) -> Generator[None, None, int]:
        """The weight of a predicate.

        Raises:
            ValueError: other routers would widen the predicate.
        """
        limits, weight_of, total = self._limits, self._content.weight_of, 0
        widens = self._content.widens
        if widens and len(predicate) > limits.predicate_filters:
            raise ValueError(
                f"{len(predicate)} filters; at most {limits.predicate_filters} ([protocol] predicate_filters)"
            )
        for start in range(0, len(predicate), _COMPARED):
            for filter_ in predicate.filters[start : start + _COMPARED]:
                weight = weight_of(filter_)
                total += weight
                if widens and weight > limits.filter_weight:
                    raise ValueError(
                        f"a filter has the weight {weight}; "
                        f"at most {limits.filter_weight} ([protocol] filter_weight)"
                    )
            yield
        if widens and total > limits.predicate_weight:
            raise ValueError(
                f"the predicate has the weight {total}; "
                f"at most {limits.predicate_weight} ([protocol] predicate_weight)"
            )
        return total

    def _parts(self, filters: Iterable[Filter]) -> Iterator[Predicate]:
        """Divides filters into predicates of a part of the weight of a turn, or of a single filter.

        What a filter is compared with grows with p0, which is never widened.
        """
        part: list[Filter] = []
        weight, most = 0, self._limits.turn_weight // _PARTS
        for filter_ in filters:
            own = self._content.weight_of(filter_)
            if part and weight + own > most:
                yield self._content.predicate(part)
                part, weight = [], 0
            part.append(filter_)
            weight += own
        if part:
            yield self._content.predicate(part)

    @property
    def _step_pairs(self) -> int:
        """Pairs of filters that one step considers."""
        pairs = self._limits.turn_pairs
        return max(pairs // _PARTS, min(pairs, _FEWEST_PAIRS))

    def _covered(self, gone: Iterable[Filter], fresh: Iterable[Filter]) -> Steps:
        """Whether the fresh filters are known to cover those that are gone."""
        grown = self._content.builder()
        yield from self._unite(grown, fresh)
        for part in self._parts(gone):
            with self._routing.bounded(self._step_pairs):
                if not grown.covers(part):
                    return False
            yield
        return True

    def _unite(self, union: PredicateBuilder, filters: Iterable[Filter]) -> Iterator[None]:
        """`union` <- `union` or the filters."""
        pool, limits = self._pool, self._limits
        for part in self._parts(filters):
            yield from self._content.prepare(part.filters)
            numbers = pool.numbers(part)
            # The pool keeps them meanwhile.
            held = self._content.builder(members=bits_of(numbers))
            yield
            searched = 0
            while searched < len(held):
                searched = pool.search(numbers, searched, limits.turn_weight)
                yield
            with self._routing.bounded(self._step_pairs):
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
