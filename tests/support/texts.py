"""Texts of the accounting on small inputs, on DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from captures.accounting.engines import CAPTURED, DuckDB
from captures.accounting.texts import double, in_order, reads, texts, written_out
from captures.frames.columns import SCHEMA
from captures.rundir.clock import Clock

#: One wall second is ten experiment seconds.
CLOCK = Clock.steady(1_000_000_000, 10.0)
_MESSAGE = [("source", pa.int64()), ("seq", pa.int64())]
_OF_NODE = [("node", pa.int32()), ("app", pa.string())]
#: The columns of small inputs, by name.
SCHEMAS = {
    CAPTURED: SCHEMA,
    "sent": pa.schema([*_MESSAGE, ("sent_ns", pa.int64()), ("message", pa.string())]),
    **dict.fromkeys(("delivered", "lost"), pa.schema([*_MESSAGE, *_OF_NODE, ("t_ns", pa.int64())])),
    "discarded": pa.schema([*_MESSAGE, *_OF_NODE, ("t_ns", pa.int64()), ("discard_cause", pa.string())]),
    "oracle": pa.schema(
        [*_MESSAGE, ("sent_ns", pa.int64()), *_OF_NODE, ("expected", pa.bool_()), ("decided", pa.bool_())]
    ),
    "links": pa.schema(
        [
            *((name, pa.int32()) for name in ("link", "u", "v")),
            *(("cost", pa.int64()), ("bandwidth_mbps", pa.float64())),
        ]
    ),
    "opening": pa.schema([("node", pa.int32()), ("requested_ns", pa.int64()), ("confirmed_ns", pa.int64())]),
    "declared": pa.schema(
        [
            *(*_OF_NODE, ("t_ns", pa.int64()), ("predicate", pa.string()), ("filters", pa.int32())),
            *(("requested_ns", pa.int64()), ("place", pa.int64())),
        ]
    ),
    "trees": pa.schema(
        [
            *(("epoch", pa.int64()), ("node", pa.int32()), ("source", pa.int64()), ("parent", pa.int32())),
            *(("told_ns", pa.int64()), ("off_tree", pa.list_(pa.int32()))),
        ]
    ),
    "shortest_paths": pa.schema(
        [
            *(("source", pa.int64()), ("node", pa.int32())),
            *(("shortest_hops", pa.int32()), ("shortest_cost", pa.int64())),
        ]
    ),
    "numbers": pa.schema([("number", pa.int64())]),
}
_FRAME = {"kind": "link", "link": 0, "type": "MSG", "length": 100, "issuer": 0, "seq": 1, "fragment_index": 0}
_VALUES = {
    "bin_s": double(0.5),
    "bins": "3",
    "start_ns": "0",
    "last_ns": "0",
    "wait_ns": str(100_000_000),
    "all_hosts": "true",
    "scheme": "'pif'",
    "copies": "false",
    "window_s": double(120.0),
    "step_s": double(2.0),
    "steps": "59",
    "missed_step_s": double(0.05),
    "missed_steps": "4",
}


def table_of(name: str, rows: Sequence[tuple[Any, ...]] = ()) -> pa.Table:
    """An input with the columns of `SCHEMAS`, or with the first of them."""
    schema = SCHEMAS[name]
    names = schema.names[: len(rows[0])] if rows else schema.names
    columns = list(zip(*rows, strict=True)) or [() for _ in names]
    arrays = [pa.array(column, schema.field(at).type) for at, column in zip(names, columns, strict=True)]
    return pa.table(arrays, names=list(names))


def frames_of(*rows: dict[str, Any]) -> pa.Table:
    """Captured frames with the given columns; by default a MSG frame of node 0 on link 0."""
    return pa.Table.from_pylist([{**_FRAME, **row} for row in rows], schema=SCHEMA)


def wall(seconds: float) -> int:
    """The time in ns that is `seconds` wall seconds after the start."""
    return CLOCK.start_ns + round(seconds * 1e9)


def answer(name: str, inputs: dict[str, pa.Table], /, **values: str) -> pa.Table:
    """The answer to a text.

    Args:
        inputs: what it reads, directly or not, by name; inputs that are missing are empty.
        values: values of a run for the texts.
    """
    inputs = {"numbers": pa.table({"number": pa.array(range(100), pa.int64())}), **inputs}
    engine = DuckDB(SCHEMA.empty_table().to_reader(), threads=1)
    try:
        for each in in_order([name], lambda read: () if read in inputs else reads(texts().get(read, ""))):
            if each in inputs:
                engine.register(each, inputs[each])
            elif each in texts():
                text = written_out(texts()[each], CLOCK, {**_VALUES, **values})
                engine.define(each, text, shared=True)
            else:
                engine.register(each, table_of(each))
        return engine.rows(name)
    finally:
        engine.close()


def rows_of(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.select(columns or table.column_names).to_pylist())
