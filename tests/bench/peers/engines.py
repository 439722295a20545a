"""Engines beside the peers: those of routers, and a database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from router.matching.columns import ConstraintColumns
from router.matching.compiled.attributes import FEW
from router.matching.compiled.engine import CompiledMatcher
from router.matching.compiled.matching import match
from router.matching.compiled.segments import working_memory
from router.matching.engines import factory
from router.native import I64, Array, Tuple
from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type
from router.wire.message import encode_message
from tests.bench.peers import Boxes, Ints, Longs, Peer, callee, kernel


def _columns(boxes: Boxes, interface: Ints) -> ConstraintColumns:
    """The boxes as integers of the attributes s0, s1, ..., with two constraints for each interval."""
    living = np.flatnonzero(boxes.count >= 0)
    count = boxes.count[living]
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(count, dtype=np.int64)])
    rows = np.arange(start[-1]) + np.repeat(boxes.first[living] - start[:-1], count)
    return ConstraintColumns(
        interface=interface[living],
        start=2 * start,
        name=np.repeat(boxes.slot[rows], 2),
        type=np.full(2 * len(rows), Type.INTEGER, np.uint8),
        operator=np.tile(np.array([Operator.GE, Operator.LE], np.uint8), len(rows)),
        value=np.column_stack([boxes.low[rows], boxes.high[rows]]).ravel(),
        names=[f"s{slot}".encode() for slot in range(boxes.slots)],
        strings=[],
    )


@callee
def _match(state: Tuple, body: Array, trusted: Array, _found: Array) -> I64:
    table, open_, limit = state
    return match(body, table, open_, limit, trusted[0])


class Compiled(Peer):
    """The engine `compiled`, which reads a message from the bytes of its frame.

    The codec reads a message of more than `FEW` attributes first, in routers; this is not timed.
    """

    search = staticmethod(_match)

    def __init__(self, boxes: Boxes, interface: Ints | None = None) -> None:
        """Loads the filters as those of `interface` (int32 [room], ascending), or of an interface each."""
        super().__init__(boxes)
        self._shift = int(interface is None)
        self._matcher = CompiledMatcher()
        own = np.arange(1, boxes.room + 1, dtype=np.int32) if interface is None else interface
        self._matcher.load(_columns(boxes, own))

    @property
    def nbytes(self) -> int:
        return self._matcher.nbytes

    @property
    def state(self) -> tuple[Any, ...]:
        asked = self._matcher.interfaces.asked(None)
        return self._matcher.address, asked.address, asked.count

    def prepare(self, slots: Ints, keys: Longs) -> tuple[Any, ...]:
        pairs = zip(slots.tolist(), keys.tolist(), strict=True)
        body = encode_message(Message({f"s{slot}": key for slot, key in pairs}))
        # Afterwards there is memory for such a message.
        self._matcher.match_encoded(body)
        return body, *self.state, int(len(slots) > FEW)

    def prepare_batch(self, points: Sequence[tuple[Ints, Longs]]) -> tuple[Any, ...]:
        """The bodies in place of the slots, and for each byte whether it is trusted in place of the keys."""
        calls = [self.prepare(*point) for point in points]
        return super().prepare_batch(
            [(np.frombuffer(body, np.uint8), np.full(len(body), trusted)) for body, *_, trusted in calls]
        )

    def run(self, *prepared: Any) -> int:
        return int(match(*prepared))

    def idle(self, *prepared: Any) -> int:
        """Reads the attributes; of no interface, a match."""
        body, table, open_, _, trusted = prepared
        return int(match(body, table, open_, 0, trusted))

    def numbers(self, count: int) -> Ints:
        names = self._matcher.interfaces.names(working_memory().found[:count].tolist())
        return np.fromiter(names, np.int32, count) - np.int32(self._shift)

    def _insert(self, number: int) -> None:
        constraints = [
            Constraint(f"s{slot}", Type.INTEGER, operator, bound)
            for slot, low, high in zip(*(part.tolist() for part in self.boxes.rows(number)), strict=True)
            for operator, bound in ((Operator.GE, low), (Operator.LE, high))
        ]
        self._matcher.set_predicate(number + 1, Predicate((Filter(tuple(constraints)),)))
        self._matcher.lay_out()

    def _delete(self, number: int) -> None:
        self._matcher.remove(number + 1)
        self._matcher.lay_out()


_QUERY = """
select i.filter from intervals i join (select unnest($slots) slot, unnest($keys) key) p
    on i.slot = p.slot and p.key between i.low and i.high
group by i.filter having count(*) = any_value(i.count)
union all select filter from intervals where count = 0
"""


class DuckDb(Peer):
    """A table with a row for each interval, in DuckDB with a thread, and a query for each message."""

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        self._database = duckdb.connect(config={"threads": 1})
        number = np.repeat(np.arange(boxes.room, dtype=np.int32), np.maximum(boxes.count, 0))
        rows = {"filter": number, "slot": boxes.slot, "low": boxes.low, "high": boxes.high}
        rows["count"] = boxes.count[number]
        self._database.execute("create table intervals as from rows")
        del rows
        for empty in np.flatnonzero(boxes.count == 0).tolist():
            self._insert(empty)

    @property
    def nbytes(self) -> int:
        row = self._database.execute("select sum(memory_usage_bytes) from duckdb_memory()").fetchone()
        return int(row[0]) if row else 0

    def prepare(self, slots: Ints, keys: Longs) -> tuple[Any, ...]:
        return ({"slots": slots.tolist(), "keys": keys.tolist()},)

    def run(self, *prepared: Any) -> int:
        self.found = self._database.execute(_QUERY, *prepared).fetchnumpy()["filter"]
        return len(self.found)

    def idle(self, *_: Any) -> int:
        return 0

    def _insert(self, number: int) -> None:
        intervals = [*zip(*(part.tolist() for part in self.boxes.rows(number)), strict=True)]
        rows = [[number, *interval, len(intervals)] for interval in intervals or [(-1, 0, 0)]]
        self._database.executemany("insert into intervals values (?, ?, ?, ?, ?)", rows)

    def _delete(self, number: int) -> None:
        self._database.execute("delete from intervals where filter = ?", [number])


class ByInterface:
    """A peer that answers with the interfaces of the filters that it finds."""

    def __init__(self, peer: Peer, interface: Ints) -> None:
        """Takes the interface of each filter: int32 [room]."""
        self._peer, self.exact, self.nbytes = peer, peer.exact, peer.nbytes + interface.nbytes
        self.prepare, self.idle = peer.prepare, peer.idle
        room = int(interface.max()) + 1
        self._known = interface, np.zeros(room, np.int64), np.zeros(1, np.int64), np.empty(room, np.int32)

    def run(self, *prepared: Any) -> int:
        return int(_interfaces(self._peer.numbers(self._peer.run(*prepared)), *self._known))

    def numbers(self, count: int) -> Ints:
        return self._known[3][:count]


@kernel
def _interfaces(filters: Array, interface: Array, epochs: Array, epoch: Array, found: Array) -> I64:
    """Writes the interfaces of some filters to `found`, each once; returns how many."""
    epoch[0] += 1
    number = 0
    for at in range(len(filters)):
        own = interface[filters[at]]
        if epochs[own] != epoch[0]:
            epochs[own] = epoch[0]
            found[number] = own
            number += 1
    return number


class Whole:
    """An engine of `router.matching.engines`, on tables of the whole language of predicates."""

    exact = True

    def __init__(self, spec: str, table: ConstraintColumns) -> None:
        self._matcher = factory(spec)
        self._matcher.load(table)
        self._found: Collection[int] = ()

    @property
    def nbytes(self) -> int:
        return self._matcher.nbytes or 0

    def prepare(self, message: Message) -> tuple[Any, ...]:
        """A message as the engine takes it: from the wire, or decoded."""
        body = encode_message(message)
        if self._matcher.match_encoded(body) is None:
            return self._matcher.match, message
        return self._matcher.match_encoded, body

    def run(self, match: Callable[..., Collection[int]], message: Any) -> int:
        self._found = match(message)
        return len(self._found)

    def idle(self, match: Callable[..., Collection[int]], message: Any) -> int:
        return len(match(message, ()))

    def insert(self, interface: int, predicate: Predicate) -> None:
        """Replaces the predicate of an interface."""
        self._matcher.set_predicate(interface, predicate)
        if isinstance(self._matcher, CompiledMatcher):
            self._matcher.lay_out()

    def delete(self, interface: int) -> None:
        self._matcher.remove(interface)
        if isinstance(self._matcher, CompiledMatcher):
            self._matcher.lay_out()

    def numbers(self, count: int) -> npt.NDArray[np.int32]:
        return np.fromiter(self._found, np.int32, count)
