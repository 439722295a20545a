"""The forwarding function F_C: whose predicates a message matches (protocol paper, section 3.2)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from router.predicates.model import Filter, Message, Predicate

if TYPE_CHECKING:
    from router.matching.common.columns import ConstraintColumns  # NumPy: not for a router that does without


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


@runtime_checkable
class ChangeMatcher(Matcher, Protocol):
    """A matcher that is told of a predicate's change, at a cost that follows the change."""

    def change(self, interface: int, gone: Iterable[Filter], added: Iterable[Filter]) -> None:
        """Associate the interface with its predicate without some filters, and with others.

        Args:
            gone: filters of it, the very objects that were given.
            added: what it has already makes no difference.
        """


@runtime_checkable
class TableMatcher(Matcher, Protocol):
    """A matcher that takes a whole table at once, without an object for each constraint."""

    def load(self, table: ConstraintColumns) -> None:
        """Associate every interface of `table` with its filters; forget all others."""

    @property
    def nbytes(self) -> int:
        """Memory of the table and its index, in bytes."""


@runtime_checkable
class EncodedMatcher(Matcher, Protocol):
    """A matcher that reads messages as they are on the wire."""

    def match_encoded(self, body: bytes, among: Collection[int] | None = None) -> frozenset[int] | None:
        """As `match`, for a message given as the body of its frame (docs/wire-format.md).

        None if the body may break a rule of the format, or uses what this matcher does not know: then it is
        to be decoded, which tells, and matched as a message.
        """
