"""The stateful layer on top of `set_predicate`: the predicate of an application, made of subscriptions.

INFOCOM paper, section II: a service layer keeps the predicates of several applications apart, and lets
each build up its own by issuing and revoking subscriptions; the network only hears of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping

from router.content.base import Content
from router.predicates.model import Filter, Predicate


class Subscriptions:
    """The predicate of an application: what it declared by `set_predicate`, or any of its subscriptions.

    Args:
        content: what predicates are.
    """

    def __init__(self, content: Content) -> None:
        self._content = content
        self._declared = content.nothing
        self._numbered: dict[int, Predicate] = {}

    @property
    def declared(self) -> Predicate:
        """The last `set_predicate`."""
        return self._declared

    @property
    def numbered(self) -> Mapping[int, Predicate]:
        """The subscriptions in force, by number."""
        return self._numbered

    @property
    def predicate(self) -> Predicate:
        """The filters of the whole, as they were given; p0 is simplified by the router."""
        if not self._numbered:
            return self._declared
        filters: list[Filter] = [*self._declared]
        for predicate in self._numbered.values():
            filters += predicate
        return self._content.predicate(filters)

    def declare(self, predicate: Predicate) -> None:
        """Overwrites what was declared before; subscriptions stay."""
        self._declared = predicate

    def add(self, number: int, predicate: Predicate) -> None:
        """A subscription; its number must be new."""
        self._numbered[number] = predicate

    def remove(self, number: int) -> None:
        """Revokes a subscription.

        Raises:
            KeyError: there is none of that number.
        """
        del self._numbered[number]

    def clear(self) -> None:
        """Revokes all subscriptions; what was declared stays."""
        self._numbered.clear()
