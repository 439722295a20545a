"""The routing table: which predicate lies behind which interface.

Protocol paper, sections 3.3 and 3.4. Interface 0 stands for the local applications: p0 is the
disjunction of their predicates. The table is the routing protocol's state; a `Matcher` mirrors it for
forwarding and hears of every change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from router.matching.interface import Matcher
from router.predicates import algebra, semantics
from router.predicates.model import NOTHING, Message, Predicate
from router.wire.addresses import LOCAL_INTERFACE


class RoutingTable:
    """p_i for every interface i, and the predicates of the local applications."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._predicates: dict[int, Predicate] = {}
        self._applications: dict[int, Predicate] = {}

    @property
    def local(self) -> Predicate:
        """p0, the content-based address of this node."""
        return self.get(LOCAL_INTERFACE)

    def get(self, interface: int) -> Predicate:
        """p_i; an interface behind which nothing was advertised has `NOTHING`."""
        return self._predicates.get(interface, NOTHING)

    def predicates(self) -> Mapping[int, Predicate]:
        """Interface -> p_i, where p_i is not `NOTHING`."""
        return dict(self._predicates)

    def widen(self, interface: int, predicate: Predicate) -> bool:
        """p_i <- p_i or `predicate`. Returns True if p_i changed."""
        known = self.get(interface)
        if algebra.covers(known, predicate):
            return False
        self._set(interface, algebra.disjoin(known, predicate))
        return True

    def replace(self, interface: int, predicate: Predicate) -> None:
        """p_i <- `predicate`."""
        if predicate != self.get(interface):
            self._set(interface, predicate)

    def keep_only(self, interfaces: Iterable[int]) -> None:
        """Forgets what was learnt for every other interface (p0 stays)."""
        kept = {LOCAL_INTERFACE, *interfaces}
        for interface in self._predicates.keys() - kept:
            self._set(interface, NOTHING)

    def set_application(self, app: int, predicate: Predicate) -> bool:
        """Overwrites the predicate of one application. Returns True if p0 changed."""
        if self._applications.get(app, NOTHING) == predicate:
            return False
        if predicate:
            self._applications[app] = predicate
        else:
            del self._applications[app]
        local = NOTHING
        for own in self._applications.values():
            local = algebra.disjoin(local, own)
        if local == self.local:
            return False
        self._set(LOCAL_INTERFACE, local)
        return True

    def wanting(self, message: Message) -> tuple[int, ...]:
        """The applications whose own predicates select `message`."""
        return tuple(
            app for app, predicate in self._applications.items() if semantics.matches(predicate, message)
        )

    def _set(self, interface: int, predicate: Predicate) -> None:
        if predicate:
            self._predicates[interface] = predicate
            self._matcher.set_predicate(interface, predicate)
        else:
            self._predicates.pop(interface, None)
            self._matcher.remove(interface)
