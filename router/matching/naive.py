"""Matching by evaluating every predicate: the reference for the other engines."""

from __future__ import annotations

from collections.abc import Collection

from router.predicates.model import Message, Predicate
from router.predicates.semantics import matches


class NaiveMatcher:
    """Evaluates the predicate of each interface."""

    def __init__(self) -> None:
        self._predicates: dict[int, Predicate] = {}

    def set_predicate(self, interface: int, predicate: Predicate) -> None:
        """See `Matcher`."""
        self._predicates[interface] = predicate

    def remove(self, interface: int) -> None:
        """See `Matcher`."""
        self._predicates.pop(interface, None)

    def match(self, message: Message, among: Collection[int] | None = None) -> frozenset[int]:
        """See `Matcher`."""
        asked = self._predicates if among is None else self._predicates.keys() & set(among)
        return frozenset(interface for interface in asked if matches(self._predicates[interface], message))


def make(options: str) -> NaiveMatcher:
    """See `router.matching.factory.EngineFactory`."""
    if options:
        raise ValueError("the engine naive has no options")
    return NaiveMatcher()
