"""The routing table: which predicate stands for which interface.

Protocol paper, sections 3.3 and 3.4. Interface 0 stands for the local applications: p0 is the
disjunction of their predicates. The table is the routing protocol's state; a `Matcher` mirrors it for
forwarding, as far as messages have asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set

from router.content import Content
from router.matching.engines import Matcher
from router.predicates import Message, Predicate
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.covering.bitset import numbers_in
from router.wire.frames import EncodedMessage
from router.wire.header import LOCAL_INTERFACE

#: The nodes behind an interface by the parts that a scheme keeps apart: part -> predicate of its nodes. A
#: scheme that keeps nothing apart has one part, of the number of the interface.
Report = Mapping[int, PredicateBuilder]


class RoutingTable:
    """p_i for every interface i.

    Attributes:
        changes: how often a predicate has changed.
        filters: number of filters of all p_i together.
        of_nodes: number of filters of the predicates of nodes that the entries are made of, if a scheme keeps
            such predicates.
        ingress_is_full: whether F of the RA ingress filter has so many filters; None: there is no F.
        matcher: the matching engine; it gets changes through `match` alone, which a replay of events repeats,
            and has all of them if `unsynced` is empty.

    Args:
        matcher: an empty one. None: the pool of filters answers for messages, for all tables of a process
            (`router.content.Content.pool`), as a simulation of many routers needs it.
        content: what predicates and messages are.
        max_filters: p_i, i > 0, is over-simplified to so many filters when it has more than twice as many
            (section 3.5.6). p0 is what this node asks of others, and stays exact. None: never.
    """

    __slots__ = (
        *("_content", "_entries", "_free", "_max_filters", "_predicates", "_synced", "changes"),
        *("filters", "ingress_is_full", "matcher", "of_nodes", "unsynced"),
    )

    def __init__(self, matcher: Matcher | None, content: Content, max_filters: int | None = None) -> None:
        self.changes = self.filters = self.of_nodes = 0
        self.ingress_is_full: Callable[[int], bool] | None = None
        self.matcher = matcher
        if matcher is not None:
            matcher.bound()
        self._content = content
        self._max_filters = max_filters
        #: Interface -> p_i, where p_i is not empty.
        self._predicates: dict[int, PredicateBuilder] = {}
        #: Interfaces whose change the matcher does not have. While
        #: predicates spread, p_i changes with every RA and few messages come between: an engine that followed
        #: each change would work in vain.
        self.unsynced: set[int] = set()
        #: What the matcher has of p_i.
        self._synced: dict[int, PredicateBuilder] = {}
        #: The greatest number of `new_entry`, and those that may be given again.
        self._entries, self._free = 0, list[int]()

    @property
    def local(self) -> Predicate:
        """p0, the content-based address of this node."""
        return self.get(LOCAL_INTERFACE)

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
        before = known.members
        if not known.add(predicate):
            return False
        self._set(interface, known, before.bit_count())
        return True

    def replace(self, interface: int, predicate: PredicateBuilder) -> bool:
        """p_i <- `predicate`, which is the table's from now on.

        Returns True if p_i changed.
        """
        known = self._predicates.get(interface)
        before = 0 if known is None else known.members
        if predicate.members == before:
            return False
        self._set(interface, predicate, before.bit_count())
        return True

    def new_entry(self) -> int:
        """A number above 0 for an entry of a scheme whose entries are no interfaces."""
        if self._free:
            return self._free.pop()
        self._entries += 1
        return self._entries

    def free_entry(self, number: int) -> None:
        """Empties an entry, whose number may be given again."""
        self.replace(number, self._content.builder())
        self._free.append(number)

    def keep_only(self, interfaces: Iterable[int]) -> None:
        """Forgets what was learnt for every other interface (p0 stays)."""
        kept = {LOCAL_INTERFACE, *interfaces}
        for interface in self._predicates.keys() - kept:
            self._set(interface, self._content.builder(), len(self._predicates[interface]))

    def match(self, body: Message | EncodedMessage, among: Set[int]) -> frozenset[int]:
        """Those of the interfaces `among` whose p_i the message matches: F_C (section 3.2).

        Raises:
            DecodeError: the message breaks a rule of the format.
        """
        if self.matcher is None:
            asked = self._predicates.keys() & among
            message = self._content.message_of(body)
            return frozenset([i for i in asked if self._predicates[i].matches(message)])
        if self.unsynced:
            self._sync_matcher()
        if isinstance(body, EncodedMessage):
            matched = self.matcher.match_encoded(body.encoded, among)
            if matched is not None:
                return matched
        return self.matcher.match(self._content.message_of(body), among=among)

    def is_full(self, filters: int) -> bool:
        """Whether the entries, the predicates of nodes, or F beside `max_filters` have as many filters."""
        if self.filters >= filters or self.of_nodes >= filters:
            return True
        # p_i is over-simplified, and F is not.
        ingress_is_full = self.ingress_is_full
        return self._max_filters is not None and ingress_is_full is not None and ingress_is_full(filters)

    def _sync_matcher(self) -> None:
        """Gives the matcher all changes of p_i since the last message."""
        assert self.matcher is not None
        filters = self._content.pool.filters
        for interface in sorted(self.unsynced):
            known, synced = self._predicates.get(interface), self._synced.get(interface)
            if known is None:
                self.matcher.remove(interface)
                self._synced.pop(interface, None)
                continue
            if synced is None:
                synced = self._synced[interface] = self._content.builder()
            before, after = synced.members, known.members
            synced.members = after
            gone, added = filters(numbers_in(before & ~after)), filters(numbers_in(after & ~before))
            self.matcher.change(interface, gone, added)
        self.unsynced.clear()

    def _set(self, interface: int, known: PredicateBuilder, before: int) -> None:
        """p_i <- `known`, in the place of a predicate of `before` filters."""
        self.changes += 1
        if self.matcher is not None:
            self.unsynced.add(interface)
        most = self._max_filters
        # Twice the bound, so that the work is done once for many filters that come in.
        if most is not None and interface != LOCAL_INTERFACE and len(known) > 2 * most:
            known = self._content.builder(self._content.widened(known.predicate, most))
        self.filters += known.members.bit_count() - before
        if known.members:
            self._predicates[interface] = known
        else:
            self._predicates.pop(interface, None)
