"""The predicates of the local applications, and p0, their disjunction (protocol paper, section 3.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from router.content.base import Content
from router.predicates.model import Filter, Message, Predicate
from router.protocol.routing import RoutingTable
from router.wire.addresses import LOCAL_INTERFACE


class ApplicationPredicates:
    """Keeps p0 of a routing table in line with the predicates of applications.

    Attributes:
        changes: how often the predicate of an application has changed.
    """

    def __init__(self, routing: RoutingTable, content: Content) -> None:
        self.changes = 0
        self._routing = routing
        self._content = content
        self._predicates: dict[int, Predicate] = {}

    def set(self, app: int, predicate: Predicate) -> bool:
        """Overwrites the predicate of an application.

        Returns True if p0 changed.
        """
        before = self._predicates.get(app, self._content.nothing)
        if before == predicate:
            return False
        self.changes += 1
        if predicate:
            self._predicates[app] = predicate
        else:
            del self._predicates[app]
        fresh = self._content.predicate(_without(predicate, before))
        if self._content.builder(fresh).covers(self._content.predicate(_without(before, predicate))):
            # It has grown, as it does with each subscription: p0 grows with it, whatever its size.
            return self._routing.widen(LOCAL_INTERFACE, fresh)
        local = self._content.builder()
        for own in self._predicates.values():
            local.add(own)
        return self._routing.replace(LOCAL_INTERFACE, local)

    def by_application(self) -> Mapping[int, Predicate]:
        """The predicates that select something, by application, in the order of `selecting`."""
        return self._predicates

    def selecting(self, message: Message) -> tuple[int, ...]:
        """The applications whose own predicates select `message`."""
        selects = self._content.selects
        return tuple(app for app, predicate in self._predicates.items() if selects(predicate, message))


def _without(predicate: Predicate, other: Predicate) -> Iterable[Filter]:
    """The filters of `predicate` that `other` lacks, in order."""
    known = frozenset(other)
    return (filter_ for filter_ in predicate if filter_ not in known)
