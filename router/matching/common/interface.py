"""The interface of matching engines: the forwarding function F_C (protocol paper, section 3.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from router.predicates.model import Filter, Message, Predicate

if TYPE_CHECKING:
    from router.matching.common.columns import ConstraintColumns  # NumPy, which `counting` does not need


class Matcher(ABC):
    """A table of predicates by interface, and the interfaces whose predicate a message matches.

    Every engine gives the answers that `router.predicates.semantics` defines.
    """

    @abstractmethod
    def set_predicate(self, interface: int, predicate: Predicate) -> None:
        """Sets the predicate of an interface, in place of an earlier predicate."""

    @abstractmethod
    def change(self, interface: int, gone: Iterable[Filter], added: Iterable[Filter]) -> None:
        """Removes filters from the predicate of an interface and adds others.

        Args:
            interface: the interface.
            gone: the filters to remove: the same objects that were added.
            added: the filters to add; filters that the interface has already are ignored.
        """

    @abstractmethod
    def remove(self, interface: int) -> None:
        """Removes an interface; no effect if it has no predicate."""

    @abstractmethod
    def match(self, message: Message, among: Collection[int] | None = None) -> frozenset[int]:
        """Returns the interfaces whose predicate the message matches.

        Args:
            message: the message.
            among: the interfaces to consider; None for all. Other interfaces take no time.
        """

    def match_encoded(self, body: bytes, among: Collection[int] | None = None) -> frozenset[int] | None:  # noqa: ARG002
        """As `match`, for the body of a message's frame (docs/wire-format.md).

        Returns:
            None if the body may break a rule of the format, or contains something that this engine does not
            know. The caller then decodes the body, which finds the error if there is one, and calls `match`.
        """
        return None

    def bound(self) -> None:  # noqa: B027
        """From now on, a search of an engine that counts its steps ends after some 5 ms.

        The interfaces that are not decided by then count as matching, so no receiver loses a message. To be
        called before the first predicate.
        """

    def load(self, table: ConstraintColumns) -> None:
        """Sets the predicates of an empty engine."""
        from router.matching.common.columns import to_predicates

        for interface, predicate in to_predicates(table).items():
            self.set_predicate(interface, predicate)

    @property
    def nbytes(self) -> int | None:
        """The memory of the table and its index, in bytes; None: the engine does not count it."""
        return None
