"""Matching by evaluating every predicate: the reference for the other engines."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from router.matching.common.interface import Matcher
from router.predicates.model import Filter, Message, Predicate
from router.predicates.semantics import matches


class NaiveMatcher(Matcher):
    """Evaluates the predicate of each interface."""

    def __init__(self) -> None:
        self._predicates: dict[int, Predicate] = {}

    def set_predicate(self, interface: int, predicate: Predicate) -> None:
        """See `Matcher`."""
        self._predicates[interface] = predicate

    def change(self, interface: int, gone: Iterable[Filter], added: Iterable[Filter]) -> None:
        """See `Matcher`."""
        filters = dict.fromkeys(self._predicates.get(interface, ()))
        for filter_ in gone:
            del filters[filter_]
        self._predicates[interface] = Predicate((*filters, *added))

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
