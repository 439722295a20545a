"""The routing table: which predicate lies behind which interface.

Protocol paper, sections 3.3 and 3.4. Interface 0 stands for the local applications: p0 is the
disjunction of their predicates. The table is the routing protocol's state; a `Matcher` mirrors it for
forwarding, as far as messages have asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from router.matching.common.interface import ChangeMatcher, EncodedMatcher, Matcher
from router.predicates import semantics
from router.predicates.covering.builder import PredicateBuilder
from router.predicates.covering.pool import POOL
from router.predicates.model import NOTHING, Filter, Message, Predicate
from router.wire.addresses import LOCAL_INTERFACE
from router.wire.frames import EncodedMessage
from router.wire.message import message_of


class RoutingTable:
    """p_i for every interface i, and the predicates of the local applications.

    Args:
        matcher: an empty one. None: the pool of filters answers for messages, for all tables of a process
            (`router.predicates.covering.pool`): what a simulation of many routers needs.
        max_filters: p_i, i > 0, is over-simplified to so many filters when it has more than twice as many
            (section 3.5.6). p0 is what this node asks of others, and stays exact. None: never.
    """

    def __init__(self, matcher: Matcher | None, max_filters: int | None = None) -> None:
        self._matcher = matcher
        self._match_encoded = matcher.match_encoded if isinstance(matcher, EncodedMatcher) else None
        self._change = matcher.change if isinstance(matcher, ChangeMatcher) else None
        self._max_filters = max_filters
        #: Interface -> p_i, where p_i is not `NOTHING`.
        self._predicates: dict[int, PredicateBuilder] = {}
        self._applications: dict[int, Predicate] = {}
        #: Interfaces whose change the matcher has not heard of. While predicates spread, p_i changes with
        #: every RA and few messages come between: an engine that followed each change would work in vain.
        self._untold: set[int] = set()
        #: What a matcher that is told of changes has heard of p_i.
        self._told: dict[int, PredicateBuilder] = {}

    @property
    def local(self) -> Predicate:
        """p0, the content-based address of this node."""
        return self.get(LOCAL_INTERFACE)

    def get(self, interface: int) -> Predicate:
        """p_i; an interface behind which nothing was advertised has `NOTHING`."""
        known = self._predicates.get(interface)
        return NOTHING if known is None else known.predicate

    def copy_of(self, interface: int) -> PredicateBuilder:
        """A copy of p_i that may grow apart from it."""
        known = self._predicates.get(interface)
        return PredicateBuilder() if known is None else known.copy()

    def predicates(self) -> Mapping[int, Predicate]:
        """Interface -> p_i, where p_i is not `NOTHING`."""
        return {interface: known.predicate for interface, known in self._predicates.items()}

    def widen(self, interface: int, predicate: Predicate) -> bool:
        """p_i <- p_i or `predicate`. Returns True if p_i changed."""
        known = self._predicates.get(interface)
        if known is None:
            known = PredicateBuilder()
        if not known.add(predicate):
            return False
        self._set(interface, known)
        return True

    def replace(self, interface: int, predicate: PredicateBuilder) -> None:
        """p_i <- `predicate`, which is the table's from now on."""
        known = self._predicates.get(interface)
        if predicate.members != (0 if known is None else known.members):
            self._set(interface, predicate)

    def keep_only(self, interfaces: Iterable[int]) -> None:
        """Forgets what was learnt for every other interface (p0 stays)."""
        kept = {LOCAL_INTERFACE, *interfaces}
        for interface in self._predicates.keys() - kept:
            self._set(interface, PredicateBuilder())

    def set_application(self, app: int, predicate: Predicate) -> bool:
        """Overwrites the predicate of one application. Returns True if p0 changed."""
        before = self._applications.get(app, NOTHING)
        if before == predicate:
            return False
        if predicate:
            self._applications[app] = predicate
        else:
            del self._applications[app]
        fresh = Predicate(tuple(_without(predicate, before)))
        if PredicateBuilder(fresh).covers(Predicate(tuple(_without(before, predicate)))):
            # It has grown, as it does with each subscription: p0 grows with it, whatever its size.
            return self.widen(LOCAL_INTERFACE, fresh)
        local = PredicateBuilder()
        for own in self._applications.values():
            local.add(own)
        if local.predicate == self.local:
            return False
        self._set(LOCAL_INTERFACE, local)
        return True

    def match(self, body: Message | EncodedMessage, among: Set[int]) -> frozenset[int]:
        """Those of the interfaces `among` whose p_i the message matches: F_C (section 3.2).

        Raises:
            DecodeError: the message breaks a rule of the format.
        """
        if self._matcher is None:
            asked = self._predicates.keys() & among
            message = message_of(body)
            return frozenset([i for i in asked if self._predicates[i].matches(message)])
        if self._untold:
            self._tell(among)
        if self._match_encoded is not None and isinstance(body, EncodedMessage):
            matched = self._match_encoded(body.encoded, among)
            if matched is not None:
                return matched
        return self._matcher.match(message_of(body), among=among)

    def _tell(self, among: Set[int]) -> None:
        """Tells the matcher what has changed of these interfaces."""
        assert self._matcher is not None
        for interface in self._untold.intersection(among):
            known = self._predicates.get(interface)
            if known is None:
                self._matcher.remove(interface)
                self._told.pop(interface, None)
            elif self._change is None:
                self._matcher.set_predicate(interface, known.predicate)
            else:
                told = self._told.setdefault(interface, PredicateBuilder())
                before, told.members = told.members, known.members
                gone, added = before & ~known.members, known.members & ~before
                self._change(interface, POOL.filters(gone), POOL.filters(added))
            self._untold.remove(interface)

    def wanting(self, message: Message) -> tuple[int, ...]:
        """The applications whose own predicates select `message`."""
        return tuple(
            app for app, predicate in self._applications.items() if semantics.matches(predicate, message)
        )

    def _set(self, interface: int, known: PredicateBuilder) -> None:
        if self._matcher is not None:
            self._untold.add(interface)
        if len(known):
            self._predicates[interface] = self._bounded(interface, known)
        else:
            self._predicates.pop(interface, None)

    def _bounded(self, interface: int, known: PredicateBuilder) -> PredicateBuilder:
        """`known`, or what it is over-simplified to if it has grown too large.

        Twice the bound, so that the work is done once for many filters that come in.
        """
        most = self._max_filters
        if most is None or interface == LOCAL_INTERFACE or len(known) <= 2 * most:
            return known
        # NumPy comes with it, which a router that does not over-simplify shall not load.
        from router.predicates.covering.oversimplify import oversimplify

        return PredicateBuilder(oversimplify(known.predicate, most))


def _without(one: Predicate, other: Predicate) -> Iterable[Filter]:
    """The filters of `one` that `other` lacks, in order."""
    known = frozenset(other)
    return (filter_ for filter_ in one if filter_ not in known)
