"""The compiled engine: matching with access predicates; an update takes time that grows with the change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from router.matching.columns import ColumnsBuilder, ConstraintColumns
from router.matching.compiled.matching import match
from router.matching.compiled.normal import NormalTable, normal_table
from router.matching.compiled.segment import Segment
from router.matching.compiled.segments import MessageMemory, merged_table, working_memory
from router.matching.engines import Matcher
from router.matching.filters import FilterTable
from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type
from router.wire.message import encode_message

_NONE: frozenset[int] = frozenset()
#: Steps of a bounded search, of some 10 ns each, and of a search without a bound.
MOST_STEPS, UNBOUNDED = 300_000, 2**62


class CompiledMatcher(FilterTable[Filter, NormalTable, Segment], Matcher):
    """See `Matcher`; filters of an interface are distinguished by their identity.

    For a predicate that grew by one filter `set_predicate` adds one filter, but visits all others; `change`
    does not.
    """

    _memory: MessageMemory

    def __init__(self) -> None:
        self._steps = UNBOUNDED
        super().__init__(working_memory())

    def bound(self, steps: int = MOST_STEPS) -> None:
        self._steps = steps
        self._clear()

    # The table.

    def set_predicate(self, interface: int, predicate: Predicate) -> None:
        self.replace(interface, predicate)

    def load(self, table: ConstraintColumns) -> None:
        """Replaces the whole content by a table, without an object for each constraint.

        Raises:
            ValueError: the columns contradict themselves.
        """
        interfaces, counts = np.unique(table.interface, return_counts=True)
        normal = normal_table(table, np.repeat(np.arange(1, len(interfaces) + 1, dtype=np.int32), counts))
        self._load(normal, interfaces, table.filters)

    @property
    def _head(self) -> tuple[int, ...]:
        return self._memory.address, self._steps

    def _key(self, filter_: Filter) -> int:
        return id(filter_)

    def _table(self, filters: list[Filter], dense: npt.NDArray[np.int32]) -> NormalTable:
        builder = ColumnsBuilder()
        for filter_ in filters:
            builder.add(0, filter_)
        return normal_table(builder.build(), dense)

    def _segment(self, table: NormalTable) -> Segment:
        segment = Segment(table)
        self._memory.fit_segment(segment.slots, segment.groups)
        return segment

    def _merged(self, segments: Sequence[tuple[Segment, npt.NDArray[np.int64]]]) -> NormalTable:
        return merged_table(segments)

    # Matching.

    def match(self, message: Message, among: Collection[int] | None = None) -> frozenset[int]:
        return self._match(encode_message(message), among, 1) or _NONE

    def match_encoded(self, body: bytes, among: Collection[int] | None = None) -> frozenset[int] | None:
        return self._match(body, among, 0)

    def _match(self, body: bytes, among: Collection[int] | None, trusted: int) -> frozenset[int] | None:
        asked, memory = self._asked(among), self._memory
        if len(body) > memory.body:
            memory.fit_body(len(body))
        number = match(body, self.address, asked.address, asked.count, trusted)
        memory.shrink()
        if number <= 0:
            return None if number else _NONE
        return self.interfaces.names(memory.found[:number].tolist())

    # For compiled code that matches messages itself (`matching.match_at`).

    def lay_out(self) -> Mapping[int, int]:
        """Applies the changes that were collected; returns interface -> dense number.

        The numbers are valid until the next change of a predicate.
        """
        self.sync()
        return self.interfaces.numbers()

    @property
    def body_room(self) -> int:
        """The length in bytes of the longest message that compiled code may match."""
        return self._memory.body


def make(options: str) -> CompiledMatcher:
    """See `router.matching.engines.EngineFactory`."""
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
    if answers != [{1}, {1, 2}, {1, 2}]:
        raise RuntimeError(f"compiled matching gave {answers}")
