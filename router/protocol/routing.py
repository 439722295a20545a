"""The routing table: which predicate stands for which interface.

Protocol paper, sections 3.3 and 3.4. Interface 0 stands for the local applications: p0 is the
disjunction of their predicates. The table is the routing protocol's state; a `Matcher` mirrors it for
forwarding, as far as messages have asked.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from router.content.base import Content
from router.matching.common.interface import (
    BoundedMatcher,
    ChangeMatcher,
    EncodedMatcher,
    LaidOutMatcher,
    Matcher,
    TableMatcher,
)
from router.predicates.covering.bitset import Bits, bits_of, lowest, numbers_in
from router.predicates.covering.budget import DEFAULT_LIMITS
from router.predicates.covering.builder import PredicateBuilder
from router.predicates.covering.pool import FilterAlgebra
from router.predicates.model import Message, Predicate
from router.wire.addresses import LOCAL_INTERFACE
from router.wire.frames import EncodedMessage

#: Filters of p_i up to which it is over-simplified at once.
_WIDENED_AT_ONCE = 32
#: Filters that are added in one step to what p_i is over-simplified to.
_UNITED = 8
#: Weight of a filter that takes the matcher as long as a further filter.
_WEIGHT = 8
#: Filters of the pool up to which it answers for a short message within a turn.
_ANSWERED_BY_POOL = 4_096
#: The pool answers in place of a matcher that lays out changes for messages up to this length, and while
#: filters times weight are at most so many: an answer then takes less time than laying out.
_SHORT, _LIGHT = 2_048, 32_768


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Widening:
    """The over-simplification of p_i: the filters that it had at the begin, and the steps."""

    members: Bits
    steps: Generator[None, None, PredicateBuilder]


class OtherFilters(Protocol):
    """Filters of RAs that a router holds beside those of its routing table: F of the RA ingress filter."""

    @property
    def filters(self) -> int:
        """Their number; up to twice as many."""

    def are_as_many(self, filters: int) -> bool:
        """Whether they are as many."""


class RoutingTable:
    """p_i for every interface i.

    Attributes:
        changes: how often a predicate has changed.
        filters: number of filters of all p_i together.
        others: what the RA ingress filter holds, if there is one.

    Args:
        matcher: an empty one. None: the pool of filters answers for messages, for all tables of a process
            (`router.content.base.Content.pool`), as a simulation of many routers needs it.
        content: what predicates and messages are.
        turn_filters: a change of more filters reaches the matcher in several turns (`sync`); a heavy filter
            counts as several.
        max_filters: p_i, i > 0, is over-simplified to so many filters when it has more than twice as many
            (section 3.5.6). p0 is what this node asks of others, and stays exact. None: never.
        patience: messages for which the pool answers after a change before a matcher that lays out its table
            gets the change. With as many as take the time of laying out, both together take at most twice the
            least time that is possible, whenever the next change comes.
    """

    def __init__(
        self,
        matcher: Matcher | None,
        content: Content,
        max_filters: int | None = None,
        turn_filters: int = DEFAULT_LIMITS.turn_weight,
        patience: int = 0,
    ) -> None:
        self.changes = self.filters = 0
        self.others: OtherFilters | None = None
        self._matcher = matcher
        if isinstance(matcher, BoundedMatcher):
            matcher.bound()
        self._match_encoded = matcher.match_encoded if isinstance(matcher, EncodedMatcher) else None
        self._laid_out = matcher if isinstance(matcher, LaidOutMatcher) else None
        self._change = matcher.change if isinstance(matcher, ChangeMatcher) else None
        self._content = content
        self._max_filters = max_filters
        self._turn_filters = turn_filters
        self._patience = patience if self._laid_out is not None else 0
        #: Interface -> p_i, where p_i is not empty.
        self._predicates: dict[int, PredicateBuilder] = {}
        #: Interface -> number of filters of p_i, as counted in `filters`.
        self._sizes: dict[int, int] = {}
        #: Interfaces whose change the matcher does not have, or the caller of `take_changes`. While
        #: predicates spread, p_i changes with every RA and few messages come between: an engine that followed
        #: each change would work in vain.
        self.unsynced: set[int] = set()
        #: Those of them that the matcher is to have: a message has asked about them. Compiled code that
        #: forwards messages needs all.
        self._syncing: set[int] = set()
        #: Messages that the pool has answered since the matcher had all changes.
        self._answered = 0
        #: The interfaces whose p_i is to be over-simplified, in turn; None: not begun.
        self._widening: dict[int, _Widening | None] = {}
        #: What a matcher that takes changes has of p_i.
        self._synced: dict[int, PredicateBuilder] = {}

    @property
    def local(self) -> Predicate:
        """p0, the content-based address of this node."""
        return self.get(LOCAL_INTERFACE)

    @property
    def engine_bytes(self) -> int | None:
        """The memory of the matcher's table and index; None: it does not count it.

        A matcher has the entries that messages have asked for.
        """
        return self._matcher.nbytes if isinstance(self._matcher, TableMatcher) else None

    def get(self, interface: int) -> Predicate:
        """p_i; empty for an interface behind which nothing was advertised."""
        known = self._predicates.get(interface)
        return self._content.nothing if known is None else known.predicate

    def copy_of(self, interface: int) -> PredicateBuilder:
        """A copy of p_i that may grow apart from it."""
        known = self._predicates.get(interface)
        return self._content.builder() if known is None else known.copy()

    def entries(self) -> Iterator[tuple[int, Predicate]]:
        """Interface and p_i, where p_i is not empty, by interface: all as they are at the first."""
        for interface, known in [(each, self._predicates[each].copy()) for each in sorted(self._predicates)]:
            yield interface, known.predicate

    def widen(self, interface: int, predicate: Predicate) -> bool:
        """p_i <- p_i or `predicate`.

        Returns True if p_i changed.
        """
        known = self._predicates.get(interface)
        if known is None:
            known = self._content.builder()
        if not known.add(predicate):
            return False
        self._set(interface, known)
        return True

    def replace(self, interface: int, predicate: PredicateBuilder) -> bool:
        """p_i <- `predicate`, which is the table's from now on.

        Returns True if p_i changed.
        """
        known = self._predicates.get(interface)
        if predicate.members == (0 if known is None else known.members):
            return False
        # What is being over-simplified is no longer asked for.
        self._widening.pop(interface, None)
        self._set(interface, predicate)
        return True

    def restore(self, interface: int, members: Bits) -> None:
        """p_i <- what compiled code has widened it to, in place of `widen`; its callers have the change.

        Args:
            members: a simplified set of filters, not empty.
        """
        self.filters += members.bit_count() - self._sizes.get(interface, 0)
        self._sizes[interface] = members.bit_count()
        self._predicates[interface] = self._content.builder(members=members)
        self.changes += 1

    def keep_only(self, interfaces: Iterable[int]) -> None:
        """Forgets what was learnt for every other interface (p0 stays)."""
        kept = {LOCAL_INTERFACE, *interfaces}
        for interface in self._predicates.keys() - kept:
            self._widening.pop(interface, None)
            self._set(interface, self._content.builder())

    def match(self, body: Message | EncodedMessage, among: Set[int]) -> frozenset[int]:
        """Those of the interfaces `among` whose p_i the message matches: F_C (section 3.2).

        While the matcher lacks a part of a change of p_i, the pool answers for i; if it has too many filters
        for one turn, the message counts as matching p_i. No receiver loses a message by it.

        Raises:
            DecodeError: the message breaks a rule of the format.
        """
        if self._matcher is None:
            asked = self._predicates.keys() & among
            message = self._content.message_of(body)
            return frozenset([i for i in asked if self._predicates[i].matches(message)])
        if self.unsynced:
            if self._is_patient(body):
                self._answered += 1
                return self._match_while_syncing(body, among)
            self._sync_matcher(among)
            if not self.unsynced.isdisjoint(among):
                return self._match_while_syncing(body, among)
        return self._match_synced(body, among)

    def _is_patient(self, body: Message | EncodedMessage) -> bool:
        """Whether the pool answers for a message although the matcher could get the changes."""
        pool = self._content.pool
        return (
            self._answered < self._patience
            and not self._syncing
            and _length(body) <= _SHORT
            and len(pool) * pool.heaviest <= _LIGHT
        )

    def _match_synced(self, body: Message | EncodedMessage, among: Set[int]) -> frozenset[int]:
        assert self._matcher is not None
        if self._match_encoded is not None and isinstance(body, EncodedMessage):
            matched = self._match_encoded(body.encoded, among)
            if matched is not None:
                return matched
        return self._matcher.match(self._content.message_of(body), among=among)

    def _match_while_syncing(self, body: Message | EncodedMessage, among: Set[int]) -> frozenset[int]:
        """As `match`; the matcher lacks a part of some p_i."""
        asked = self._predicates.keys() & self.unsynced & among
        matched = self._match_synced(body, among - self.unsynced)
        if not asked:
            return matched
        if len(self._content.pool) * (1 + _length(body) // _SHORT) > _ANSWERED_BY_POOL:
            return matched | asked
        message = self._content.message_of(body)
        return matched | {i for i in asked if self._predicates[i].matches(message)}

    def laid_out(self) -> LaidOutMatcher | None:
        """The matcher, if compiled code can search its table; it has all changes if `synced`.

        It gets changes through `match` and `sync` alone, which a replay of events repeats.
        """
        return self._laid_out

    def take_changes(self) -> dict[int, Bits]:
        """The filters of p_i of each interface that has changed since the last call.

        Of a table without a matcher, for code that matches in its place.
        """
        predicates = self._predicates
        found = {i: predicates[i].members if i in predicates else 0 for i in self.unsynced}
        self.unsynced.clear()
        return found

    @property
    def pool(self) -> FilterAlgebra:
        """The filters that p_i are sets of."""
        return self._content.pool

    def bounded(self, pairs: int | None) -> AbstractContextManager[None]:
        """See `FilterAlgebra.bounded`: of a pool that has the filters of this table."""
        others = self._exact_others()
        filters = self.filters if others is None else max(self.filters, others.filters)
        return self._content.pool.bounded(pairs, filters)

    def is_full(self, filters: int) -> bool:
        """Whether all p_i together have as many filters, or the RA ingress filter beside `max_filters`."""
        others = self._exact_others()
        return self.filters >= filters or (others is not None and others.are_as_many(filters))

    def _exact_others(self) -> OtherFilters | None:
        """The filters beside p_i where it is over-simplified, and they are not; None: it is exact."""
        return self.others if self._max_filters is not None else None

    @property
    def synced(self) -> bool:
        """Whether the matcher has all changes of p_i."""
        return not self.unsynced

    @property
    def syncing(self) -> bool:
        """Whether `sync` has to be called."""
        return bool(self._syncing)

    def sync(self) -> None:
        """Gives the matcher a further part of the changes."""
        self._sync_matcher(frozenset())

    def _sync_matcher(self, first: Set[int]) -> None:
        """Gives the matcher changes as large as `turn_filters`, first those of some interfaces."""
        self._syncing |= self.unsynced if self._laid_out is not None else self.unsynced & first
        left = self._turn_filters
        for interface in sorted(self._syncing, key=lambda each: (each not in first, each)):
            left -= self._sync_interface(interface, left)
        self._syncing &= self.unsynced
        if not self.unsynced:
            self._answered = 0
        if self._laid_out is not None:
            # The engine works off what it has collected at the next message otherwise.
            self._laid_out.lay_out()

    def _sync_interface(self, interface: int, left: int) -> int:
        """Gives the matcher changes of p_i that are about so large; returns their size in filters."""
        assert self._matcher is not None
        known = self._predicates.get(interface)
        if self._change is None:
            if known is None:
                self._matcher.remove(interface)
            else:
                self._matcher.set_predicate(interface, known.predicate)
            self.unsynced.remove(interface)
            return 0
        pool = self._content.pool
        synced = self._synced.get(interface)
        if synced is None:
            synced = self._synced[interface] = self._content.builder()
        before, after = synced.members, 0 if known is None else known.members
        gone = lowest(before & ~after, left)
        size = gone.bit_count()
        added, cost = self._least(after & ~before, left - size)
        synced.members = before & ~gone | added
        if synced.members == after:
            self.unsynced.remove(interface)
        if synced.members:
            self._change(interface, pool.filters(numbers_in(gone)), pool.filters(numbers_in(added)))
        else:
            self._matcher.remove(interface)
            del self._synced[interface]
        return size + cost

    def _least(self, numbers: Bits, left: int) -> tuple[Bits, int]:
        """The least numbers of filters up to a size, which the last may exceed, and their size in filters."""
        filters, weight_of = self._content.pool.filters, self._content.weight_of
        found: list[int] = []
        size = 0
        for number in numbers_in(numbers):
            if size >= left:
                break
            found.append(number)
            size += 1 + weight_of(*filters((number,))) // _WEIGHT
        return bits_of(found), size

    def _set(self, interface: int, known: PredicateBuilder) -> None:
        self.changes += 1
        self.unsynced.add(interface)
        self.filters -= self._sizes.pop(interface, 0)
        if len(known):
            bounded = self._predicates[interface] = self._bounded(interface, known)
            size = self._sizes[interface] = len(bounded)
            self.filters += size
        else:
            self._predicates.pop(interface, None)

    def _bounded(self, interface: int, known: PredicateBuilder) -> PredicateBuilder:
        """`known`, or what it is over-simplified to if it has grown too large; later, if that takes long.

        Twice the bound, so that the work is done once for many filters that come in.
        """
        most = self._max_filters
        if most is None or interface == LOCAL_INTERFACE:
            return known
        if len(known) <= 2 * most:
            self._widening.pop(interface, None)
            return known
        if len(known) > _WIDENED_AT_ONCE:
            if interface not in self._widening:
                self._widening[interface] = None
            return known
        self._widening.pop(interface, None)
        return self._content.builder(self._content.widened(known.predicate, most))

    @property
    def widening(self) -> bool:
        """Whether `widen_further` has to be called."""
        return bool(self._widening)

    def widen_further(self) -> None:
        """Makes a step of the over-simplification of a large p_i, which stays as it is until the last."""
        interface, work = next(iter(self._widening.items()))
        known = self._predicates[interface]
        if work is None:
            work = self._widening[interface] = _Widening(known.members, self._over_simplify(known))
            self._content.pool.register(work)
        try:
            next(work.steps)
        except StopIteration as end:
            del self._widening[interface]
            widened: PredicateBuilder = end.value
            # What has been added meanwhile.
            widened.members |= known.members & ~work.members
            self._set(interface, widened)

    def _over_simplify(self, known: PredicateBuilder) -> Generator[None, None, PredicateBuilder]:
        assert self._max_filters is not None
        exact = yield from known.predicate_in_steps()
        yield
        widened = yield from self._content.widening(exact, self._max_filters)
        union = self._content.builder()
        for start in range(0, len(widened), _UNITED):
            union.add(self._content.predicate(widened.filters[start : start + _UNITED]))
            yield
        return union


def _length(body: Message | EncodedMessage) -> int:
    """About the length of a message, in bytes."""
    if isinstance(body, EncodedMessage):
        return len(body.encoded)
    return sum(len(value) if isinstance(value, str) else 1 for value in body.values())
