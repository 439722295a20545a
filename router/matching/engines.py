"""Matching engines: their interface, the reference, and their names in experiment files and commands.

An engine is the forwarding function F_C (protocol paper, section 3.2). Another engine joins by a line below.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from router.predicates import Filter, Message, Predicate, matches
from router.registry import Registry

if TYPE_CHECKING:
    from router.matching.columns import ConstraintColumns  # NumPy, which `counting` does not need


class Matcher(ABC):
    """A table of predicates by interface, and the interfaces whose predicate a message matches.

    Every engine gives the answers that `router.predicates` defines.
    """

    def set_predicate(self, interface: int, predicate: Predicate) -> None:
        """Sets the predicate of an interface, in place of an earlier predicate."""
        self.remove(interface)
        self.change(interface, (), predicate)

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
        """As `match`, for the body of a message's frame (docs/reference/wire-format.md).

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
        from router.matching.columns import to_predicates

        for interface, predicate in to_predicates(table).items():
            self.set_predicate(interface, predicate)

    @property
    def nbytes(self) -> int | None:
        """The memory of the table and its index, in bytes; None: the engine does not count it."""
        return None


class NaiveMatcher(Matcher):
    """Evaluates the predicate of each interface: the reference for the other engines."""

    def __init__(self) -> None:
        self._predicates: dict[int, Predicate] = {}

    def change(self, interface: int, gone: Iterable[Filter], added: Iterable[Filter]) -> None:
        filters = dict.fromkeys(self._predicates.get(interface, ()))
        for filter_ in gone:
            del filters[filter_]
        self._predicates[interface] = Predicate((*filters, *added))

    def remove(self, interface: int) -> None:
        self._predicates.pop(interface, None)

    def match(self, message: Message, among: Collection[int] | None = None) -> frozenset[int]:
        asked = self._predicates if among is None else self._predicates.keys() & set(among)
        return frozenset(interface for interface in asked if matches(self._predicates[interface], message))


COMPILED = "compiled"
DEFAULT = COMPILED

#: Entries are loaded when they are asked for: Numba and NumPy come with the compiled engine, which the others
#: do without.
ENGINES: Registry[type[Matcher]] = Registry("matching engine")
ENGINES.register_lazily(
    COMPILED, "router.matching.compiled.engine:CompiledMatcher", "Machine code, the fast engine."
)
ENGINES.register_lazily(
    "counting",
    "router.matching.counting:CountingMatcher",
    "The counting algorithm of the papers, in plain Python.",
)
ENGINES.register("naive", NaiveMatcher, "Every filter is evaluated in turn.")


def factory(name: str = DEFAULT) -> Matcher:
    """A new, empty engine.

    Raises:
        ValueError: there is no engine of that name.
    """
    return ENGINES[name]()
