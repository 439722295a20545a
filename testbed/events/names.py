"""The names of subscriptions that are in force, in the order of requests."""

from __future__ import annotations

from testbed.events.applications import (
    ApplicationEvent,
    Place,
    Refresh,
    Register,
    Subscribe,
    Unregister,
    Unsubscribe,
)

#: The events that name a subscription.
NAMED = Subscribe | Unsubscribe | Register | Refresh | Unregister


class NamesInForce:
    """Follows requests: subscribe and register take a name of an application, others free it."""

    def __init__(self) -> None:
        self._names: set[tuple[Place, str]] = set()

    def follow(
        self, event: type[ApplicationEvent], place: Place, subscription: str | None, at_s: float
    ) -> str | None:
        """Returns the problem with the name of a request; None: there is none, or the request has no name."""
        if subscription is None:
            return None
        key = place, subscription
        known = key in self._names
        if issubclass(event, Subscribe | Register):
            self._names.add(key)
        elif issubclass(event, Unsubscribe | Unregister):
            self._names.discard(key)
        if issubclass(event, Subscribe | Register) == known:
            state = "is in force" if known else "is not in force"
            where = f"at node {place[0]} at {at_s:g} s"
            return f'"{subscription}" {state} {where}{" already" if known else ""}'
        return None
