"""A matching engine that takes changes in when a message asks, and not before.

While predicates spread, an interface's predicate changes with every advertisement and no message comes
between most of them: an engine that follows each change works mostly in vain.
"""

from __future__ import annotations

from collections.abc import Collection

from router.matching.interface import Matcher
from router.predicates.model import NOTHING, Message, Predicate


class LazyMatcher:
    """Gives the answers of `engine`, to which it passes the last change of an interface that is asked for."""

    def __init__(self, engine: Matcher) -> None:
        self._engine = engine
        #: Interface -> predicate that the engine has not been told; `NOTHING`: remove it.
        self._untold: dict[int, Predicate] = {}

    def set_predicate(self, interface: int, predicate: Predicate) -> None:
        """See `Matcher`."""
        self._untold[interface] = predicate

    def remove(self, interface: int) -> None:
        """See `Matcher`."""
        self._untold[interface] = NOTHING

    def match(self, message: Message, among: Collection[int] | None = None) -> frozenset[int]:
        """See `Matcher`."""
        untold = self._untold
        if untold:
            for interface in list(untold) if among is None else [i for i in untold if i in among]:
                predicate = untold.pop(interface)
                if predicate:
                    self._engine.set_predicate(interface, predicate)
                else:
                    self._engine.remove(interface)
        return self._engine.match(message, among)
