"""The forwarding function F_C: whose predicates a message matches (protocol paper, section 3.2)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from router.predicates.model import Message, Predicate


class Matcher(Protocol):
    """A table of predicates by interface that answers for messages.

    Every engine gives the answers of `router.predicates.semantics`.
    """

    def set_predicate(self, interface: int, predicate: Predicate) -> None:
        """Associate the interface with this predicate, in place of the one it had."""

    def remove(self, interface: int) -> None:
        """Forget the interface; no effect if it has no predicate."""

    def match(self, message: Message, among: Collection[int] | None = None) -> frozenset[int]:
        """The interfaces whose predicate the message matches.

        With `among`, of these interfaces only, and no work is spent on others.
        """
