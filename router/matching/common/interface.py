"""The interface of matching engines: the forwarding function F_C (protocol paper, section 3.2)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from router.predicates.model import Filter, Message, Predicate

if TYPE_CHECKING:
    from router.matching.common.columns import ConstraintColumns  # NumPy, which other engines do not need


class Matcher(Protocol):
    """A table of predicates by interface, and the interfaces whose predicate a message matches.

    Every engine gives the answers that `router.predicates.semantics` defines.
    """

    def set_predicate(self, interface: int, predicate: Predicate) -> None:
        """Sets the predicate of an interface, in place of an earlier one."""

    def remove(self, interface: int) -> None:
        """Removes an interface; no effect if it has no predicate."""

    def match(self, message: Message, among: Collection[int] | None = None) -> frozenset[int]:
        """Returns the interfaces whose predicate the message matches.

        Args:
            message: the message.
            among: the interfaces to consider; None for all. Other interfaces take no time.
        """


@runtime_checkable
class ChangeMatcher(Matcher, Protocol):
    """A matcher that can change a predicate in time that grows with the change."""

    def change(self, interface: int, gone: Iterable[Filter], added: Iterable[Filter]) -> None:
        """Removes filters from the predicate of an interface and adds others.

        Args:
            interface: the interface.
            gone: the filters to remove: the same objects that were added.
            added: the filters to add; filters that the interface has already are ignored.
        """


@runtime_checkable
class BoundedMatcher(Matcher, Protocol):
    """A matcher that can end a search that takes too long for a turn of a router."""

    def bound(self) -> None:
        """From now on, a search ends after some 5 ms: its steps are counted.

        The interfaces that are not decided by then count as matching, so no receiver loses a message. To be
        called before the first predicate.
        """


@runtime_checkable
class TableMatcher(Matcher, Protocol):
    """A matcher that can load a whole table without an object for each constraint."""

    def load(self, table: ConstraintColumns) -> None:
        """Replaces the whole content by `table`."""

    @property
    def nbytes(self) -> int:
        """The memory of the table and its index, in bytes."""


@runtime_checkable
class EncodedMatcher(Matcher, Protocol):
    """A matcher that reads messages in the wire format."""

    def match_encoded(self, body: bytes, among: Collection[int] | None = None) -> frozenset[int] | None:
        """As `match`, for the body of a message's frame (docs/wire-format.md).

        Returns:
            None if the body may break a rule of the format, or contains something that this matcher does not
            know. The caller then decodes the body, which finds the error if there is one, and calls `match`.
        """


@runtime_checkable
class LaidOutMatcher(ChangeMatcher, Protocol):
    """A matcher whose table compiled code can search without a call of the interpreter."""

    def lay_out(self) -> Mapping[int, int]:
        """Applies the changes that were collected; returns interface -> its number in the table.

        The numbers are valid until the next change of a predicate.
        """

    @property
    def table(self) -> int:
        """The address of the table, valid until the next call of the matcher."""

    @property
    def body_room(self) -> int:
        """The length in bytes of the longest message that compiled code may match."""
