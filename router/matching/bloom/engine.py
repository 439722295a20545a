"""The engine for encoded predicates: sets of bits in a tree of their most frequent bits, in segments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from router.matching.bloom import BitMemory, BitTable, rows_of, words_of, working_memory
from router.matching.bloom.matching import match
from router.matching.bloom.segment import Segment
from router.matching.engines import Matcher
from router.matching.filters import FilterTable
from router.predicates import Filter, Message, Predicate
from router.predicates.encoded import ANY_SUITE, BloomFilter, BloomMessage, BloomPredicate, Suite

_NONE: frozenset[int] = frozenset()


class TreeMatcher(FilterTable[bytes, BitTable, Segment]):
    """The filters of interfaces under one suite, and the interfaces with a filter that is a subset of B_m.

    A filter is given as the bytes of its set, m/8.
    """

    _memory: BitMemory

    def __init__(self, bits: int) -> None:
        self._bits, self._words = bits, words_of(bits)
        super().__init__(working_memory())

    def _key(self, filter_: bytes) -> bytes:
        return filter_

    def _table(self, filters: list[bytes], dense: npt.NDArray[np.int32]) -> BitTable:
        return BitTable(rows_of(filters, self._bits), dense)

    def _segment(self, table: BitTable) -> Segment:
        segment = Segment(table)
        self._memory.fit_nodes(segment.nodes)
        return segment

    def _merged(self, segments: Sequence[tuple[Segment, npt.NDArray[np.int64]]]) -> BitTable:
        tables = [segment.table(postings) for segment, postings in segments]
        return BitTable(
            np.concatenate([table.rows for table in tables]),
            np.concatenate([table.interface for table in tables]),
        )

    def match(self, bits: bytes, among: Collection[int] | None = None) -> frozenset[int]:
        """Returns the interfaces with a filter B_f that is a subset of B_m.

        Args:
            bits: B_m, m/8 bytes.
            among: the interfaces to consider; None for all.
        """
        asked = self._asked(among)
        if len(bits) < 8 * self._words:
            bits = bits.ljust(8 * self._words, b"\0")
        number = match(bits, self.address, asked.address, asked.count)
        return self.interfaces.names(self._memory.found[:number].tolist()) if number else _NONE


class BloomMatcher(Matcher):
    """F_C of encoded predicates: a matcher of sets of bits for each suite."""

    def __init__(self) -> None:
        self._engines: dict[Suite, TreeMatcher] = {}
        #: The interfaces with the filter that every message matches.
        self._everything: set[int] = set()

    def set_predicate(self, interface: int, predicate: Predicate) -> None:
        assert isinstance(predicate, BloomPredicate)
        of_suite = _by_suite(predicate.encoded)
        self._everything.discard(interface)
        if of_suite.pop(ANY_SUITE, None):
            self._everything.add(interface)
        for suite in self._engines.keys() | of_suite.keys():
            self._engine(suite).replace(interface, of_suite.get(suite, ()))
            self._drop_if_empty(suite)

    def change(self, interface: int, gone: Iterable[Filter], added: Iterable[Filter]) -> None:
        removed, new = _by_suite(gone), _by_suite(added)
        if removed.pop(ANY_SUITE, None):
            self._everything.discard(interface)
        if new.pop(ANY_SUITE, None):
            self._everything.add(interface)
        for suite in removed.keys() | new.keys():
            self._engine(suite).change(interface, removed.get(suite, ()), new.get(suite, ()))
            self._drop_if_empty(suite)

    def remove(self, interface: int) -> None:
        self._everything.discard(interface)
        for suite, engine in list(self._engines.items()):
            engine.remove(interface)
            self._drop_if_empty(suite)

    def match(self, message: Message, among: Collection[int] | None = None) -> frozenset[int]:
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


def warm() -> None:
    """Loads the machine code, or compiles it, and tests it on a small table.

    Raises:
        RuntimeError: an answer is wrong.
    """
    matcher = TreeMatcher(64)
    answers = []
    for interface, filter_ in ((1, 0b11), (2, 0b100), (1, 0b100)):
        matcher.change(interface, (), [filter_.to_bytes(8, "little")])
        answers.append(matcher.match(0b101.to_bytes(8, "little")))
    if answers != [set(), {2}, {1, 2}]:
        raise RuntimeError(f"matching of sets of bits gave {answers}")
