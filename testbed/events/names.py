"""The names of subscriptions that are in force, in the order of requests."""

from __future__ import annotations

from testbed.events.applications import (
    ApplicationEvent,
    Refresh,
    Register,
    Subscribe,
    Unregister,
    Unsubscribe,
)

#: The events that name a subscription.
NAMED = Subscribe | Unsubscribe | Register | Refresh | Unregister


class NamesInForce:
    """Follows requests: subscribe and register take a name at a node, unsubscribe and unregister free it."""

    def __init__(self) -> None:
        self._names: set[tuple[int, str]] = set()

    def follow(
        self, event: type[ApplicationEvent], node: int, subscription: str | None, at_s: float
    ) -> str | None:
        """Returns the problem with the name of a request; None: there is none, or the request has no name."""
        if subscription is None:
            return None
        key = node, subscription
        known = key in self._names
        if issubclass(event, Subscribe | Register):
            self._names.add(key)
        elif issubclass(event, Unsubscribe | Unregister):
            self._names.discard(key)
        if issubclass(event, Subscribe | Register) == known:
            state = "is in force" if known else "is not in force"
            return f'"{subscription}" {state} at node {node} at {at_s:g} s' + (" already" if known else "")
        return None
