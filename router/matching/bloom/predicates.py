"""F_C of encoded predicates: a matcher of sets of bits for each suite."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from router.matching.bloom.engine import TreeMatcher
from router.predicates.encoded.model import ANY_SUITE, BloomFilter, BloomMessage, BloomPredicate, Suite
from router.predicates.model import Filter, Message, Predicate


class BloomMatcher:
    """See `router.matching.common.interface.ChangeMatcher`; predicates and messages are encoded."""

    def __init__(self) -> None:
        self._engines: dict[Suite, TreeMatcher] = {}
        #: The interfaces with the filter that every message matches.
        self._everything: set[int] = set()

    def set_predicate(self, interface: int, predicate: Predicate) -> None:
        """See `Matcher`."""
        assert isinstance(predicate, BloomPredicate)
        of_suite = _by_suite(predicate.encoded)
        self._everything.discard(interface)
        if of_suite.pop(ANY_SUITE, None):
            self._everything.add(interface)
        for suite in self._engines.keys() | of_suite.keys():
            self._engine(suite).set_filters(interface, of_suite.get(suite, ()))
            self._drop_if_empty(suite)

    def change(self, interface: int, gone: Iterable[Filter], added: Iterable[Filter]) -> None:
        """See `ChangeMatcher`."""
        removed, new = _by_suite(gone), _by_suite(added)
        if removed.pop(ANY_SUITE, None):
            self._everything.discard(interface)
        if new.pop(ANY_SUITE, None):
            self._everything.add(interface)
        for suite in removed.keys() | new.keys():
            self._engine(suite).change(interface, removed.get(suite, ()), new.get(suite, ()))
            self._drop_if_empty(suite)

    def remove(self, interface: int) -> None:
        """See `Matcher`."""
        self._everything.discard(interface)
        for suite, engine in list(self._engines.items()):
            engine.remove(interface)
            self._drop_if_empty(suite)

    def match(self, message: Message, among: Collection[int] | None = None) -> frozenset[int]:
        """See `Matcher`."""
        assert isinstance(message, BloomMessage)
        everything = self._everything if among is None else self._everything & set(among)
        engine = self._engines.get(message.suite)
        return frozenset(everything) if engine is None else engine.match(message.row, among) | everything

    @property
    def nbytes(self) -> int:
        """The memory of tables and indexes, in bytes."""
        return sum(engine.nbytes for engine in self._engines.values())

    def _engine(self, suite: Suite) -> TreeMatcher:
        found = self._engines.get(suite)
        if found is None:
            found = self._engines[suite] = TreeMatcher(suite.bits)
        return found

    def _drop_if_empty(self, suite: Suite) -> None:
        # Neighbours choose the suites: one that is gone must leave nothing.
        if self._engines[suite].empty:
            del self._engines[suite]


def _by_suite(filters: Iterable[Filter | BloomFilter]) -> dict[Suite, list[bytes]]:
    of_suite: dict[Suite, list[bytes]] = {}
    for filter_ in filters:
        assert isinstance(filter_, BloomFilter)
        of_suite.setdefault(filter_.suite, []).append(filter_.row)
    return of_suite
