"""The compiled engine: matching with access predicates; an update takes time that grows with the change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from sys import getsizeof

import numpy as np

from router.matching.common.columns import ColumnsBuilder, ConstraintColumns
from router.matching.common.interfaces import Interfaces
from router.matching.common.segments import ANONYMOUS, Segments
from router.matching.compiled.laying_out import MOST_STEPS, CompiledLayout
from router.matching.compiled.matching import match
from router.matching.compiled.normal import normal_table
from router.matching.compiled.scratch import working_memory
from router.predicates.model import Constraint, Filter, Message, Operator, Predicate, Type
from router.wire.message import encode_message

_NONE: frozenset[int] = frozenset()
#: The filters of an interface by identity: the filter and its number (None: not in a segment yet).
_Held = dict[int, tuple[Filter, int | None]]
_GONE: tuple[None, None] = None, None


class CompiledMatcher:
    """See `router.matching.common.interface.EncodedMatcher`.

    Changes are collected and applied when a message is matched, so that a burst of changes is one change.
    `set_predicate` compares the old and the new predicate of an interface by the identity of their filters.
    For a predicate that grew by one filter it adds one filter, but visits all others; `change` does not.
    """

    def __init__(self) -> None:
        self._memory = working_memory()
        self._interfaces = Interfaces()
        self._layout = CompiledLayout()
        self._segments = Segments(self._layout)
        self._held: dict[int, _Held] = {}
        #: Interfaces of a loaded table, whose filters only the segments store: numbers of filters and of
        #: constraints.
        self._loaded: dict[int, tuple[int, int]] = {}
        #: By interface, the identities of its filters that are not in a segment yet.
        self._unsynced: dict[int, list[int]] = {}

    def bound(self, steps: int = MOST_STEPS) -> None:
        """See `BoundedMatcher`; a step takes some 10 ns."""
        self._layout = CompiledLayout(steps)
        self._segments = Segments(self._layout)

    # The table.

    def set_predicate(self, interface: int, predicate: Predicate) -> None:
        """See `Matcher`."""
        if interface in self._loaded:
            self._forget_loaded(interface)
        old = self._held.get(interface, {})
        new = {id(filter_): filter_ for filter_ in predicate}
        gone = [filter_ for which, (filter_, _) in old.items() if which not in new]
        self.change(interface, gone, new.values())

    def change(self, interface: int, gone: Iterable[Filter], added: Iterable[Filter]) -> None:
        """See `ChangeMatcher`.

        Raises:
            ValueError: the interface's predicate was loaded with a table (`load`), without objects.
        """
        if interface in self._loaded:
            raise ValueError(f"interface {interface}: its filters are not known one by one")
        held = self._held.get(interface, {})
        if taken := [held.pop(id(filter_)) for filter_ in gone]:
            self._take_out(taken)
        if came := {id(filter_): (filter_, None) for filter_ in added if id(filter_) not in held}:
            held.update(came)
            self._unsynced.setdefault(interface, []).extend(came)
        if not held:
            self.remove(interface)
        elif interface not in self._held:
            self._held[interface] = held
            self._interfaces.add(interface)

    def remove(self, interface: int) -> None:
        """See `Matcher`."""
        if interface in self._loaded:
            self._forget_loaded(interface)
        held = self._held.pop(interface, None)
        if held is not None:
            self._take_out(list(held.values()))
            self._unsynced.pop(interface, None)
            self._interfaces.remove(interface)

    def load(self, table: ConstraintColumns) -> None:
        """See `TableMatcher`.

        Raises:
            ValueError: the columns contradict themselves.
        """
        numbers, first, counts = np.unique(table.interface, return_index=True, return_counts=True)
        normal = normal_table(table, np.repeat(np.arange(1, len(numbers) + 1, dtype=np.int32), counts))
        self.finish_merges()
        self._interfaces, self._segments, self._held, self._unsynced = (
            Interfaces(),
            Segments(self._layout),
            {},
            {},
        )
        self._interfaces.add_all(numbers)
        self._memory.fit_interfaces(len(numbers) + 1)
        constraints = table.start[first + counts] - table.start[first]
        self._loaded = dict(
            zip(numbers.tolist(), zip(counts.tolist(), constraints.tolist(), strict=True), strict=True)
        )
        self._segments.add(normal, np.full(table.filters, ANONYMOUS, np.int64), self._interfaces.retired)

    def _forget_loaded(self, interface: int) -> None:
        del self._loaded[interface]
        self._segments.retire(self._interfaces.retire(interface))

    def _take_out(self, filters: list[tuple[Filter, int | None]]) -> None:
        self._segments.take_out(number for _, number in filters if number is not None)

    def _sync(self) -> None:
        """Makes a segment of the filters added since the last one; starts the merges that are due."""
        builder, numbers, dense = ColumnsBuilder(), [], []
        for interface, added in self._unsynced.items():
            held, own = self._held[interface], self._interfaces[interface]
            for which in added:
                filter_, number = held.get(which, _GONE)
                # It may have been removed again, and another filter may have its identity.
                if filter_ is not None and number is None:
                    number = self._segments.number()
                    held[which] = filter_, number
                    builder.add(0, filter_)
                    numbers.append(number)
                    dense.append(own)
        self._unsynced.clear()
        if numbers:
            self._memory.fit_interfaces(len(self._interfaces.retired))
            table = normal_table(builder.build(), np.array(dense, np.int32))
            self._segments.add(table, np.array(numbers, np.int64), self._interfaces.retired)

    # Matching.

    def match(self, message: Message, among: Collection[int] | None = None) -> frozenset[int]:
        """See `Matcher`."""
        return self._match(encode_message(message), among, 1) or _NONE

    def match_encoded(self, body: bytes, among: Collection[int] | None = None) -> frozenset[int] | None:
        """See `EncodedMatcher`."""
        return self._match(body, among, 0)

    def _match(self, body: bytes, among: Collection[int] | None, trusted: int) -> frozenset[int] | None:
        if self._unsynced:
            self._sync()
        elif self._segments.merging:
            self._segments.settle(self._interfaces.retired)
        asked = self._interfaces.asked(among if among is None else frozenset(among))
        memory = self._memory
        if len(body) > memory.body:
            memory.fit_body(len(body))
        number = match(body, self._segments.address, asked.address, asked.count, trusted)
        if memory.is_large:
            memory.shrink()
        if number <= 0:
            return None if number else _NONE
        return self._interfaces.names(memory.found[:number].tolist())

    # For compiled code that matches messages itself (`matching.match_at`).

    def lay_out(self) -> Mapping[int, int]:
        """Applies the changes that were collected; returns interface -> dense number.

        The numbers are valid until the next change of a predicate.
        """
        if self._unsynced:
            self._sync()
        return self._interfaces.numbers()

    @property
    def table(self) -> int:
        """The address of the table's row, valid until the next call of this matcher."""
        if self._segments.merging:
            self._segments.settle(self._interfaces.retired)
        return self._segments.address

    @property
    def body_room(self) -> int:
        """The length in bytes of the longest message that compiled code may match."""
        return self._memory.body

    # Observation.

    @property
    def nbytes(self) -> int:
        """Memory of the table and its index, in bytes, without filters that callers passed as objects."""
        objects = sum(150 * len(held) for held in self._held.values())
        objects += getsizeof(self._loaded) + sum(map(getsizeof, self._loaded.values()))
        return self._segments.nbytes + self._interfaces.nbytes + objects

    @property
    def merging(self) -> bool:
        """Whether a thread is merging segments."""
        return self._segments.merging

    def statistics(self) -> Mapping[str, int]:
        """`interfaces`, `filters`, `constraints`, `segments` and `bytes`."""
        own = [filter_ for held in self._held.values() for filter_, _ in held.values()]
        return {
            "interfaces": len(self._interfaces),
            "filters": len(own) + sum(filters for filters, _ in self._loaded.values()),
            "constraints": sum(map(len, own)) + sum(count for _, count in self._loaded.values()),
            "segments": len(self._segments),
            "bytes": self.nbytes,
        }

    def finish_merges(self) -> None:
        """Waits for the thread that merges segments.

        Measurements need this; matching does not.
        """
        if self._unsynced:
            self._sync()
        self._segments.wait(self._interfaces.retired)


def make(options: str) -> CompiledMatcher:
    """See `router.matching.factory.EngineFactory`."""
    if options:
        raise ValueError("the engine compiled has no options")
    return CompiledMatcher()


def warm() -> None:
    """Loads the machine code, or compiles it (within a minute), and tests it on a small table.

    Raises:
        RuntimeError: an answer is wrong.
    """
    matcher = CompiledMatcher()
    wants = Predicate((Filter((Constraint("a", Type.STRING, Operator.SUBSTRING, "b"),)),))
    rest = Predicate((Filter((Constraint("c", Type.DOUBLE, Operator.LT, 1.0),)),))
    answers = []
    message = Message({"a": "abc", "c": 0.5, "d": True})
    for interface, predicate in ((1, wants), (2, rest), (1, rest)):
        matcher.set_predicate(interface, predicate)
        answers.append(matcher.match(message))
    matcher.finish_merges()
    if answers != [{1}, {1, 2}, {1, 2}]:
        raise RuntimeError(f"compiled matching gave {answers}")
