"""The tables under parquet/ in a run folder: what a row of each is, and its columns, from catalogue.toml.

A text of SQL (`captures.accounting.texts`) or an input (`captures.accounting.steps`) of its name makes each
table. Inputs take their Arrow schema from the catalogue (`Table.schema`); for the texts, a test holds what
both engines write against it. docs/reference/tables.md is made from it (`captures.tables.document`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

import pyarrow as pa

from captures.frames.columns import COLUMNS

#: Ending of a column's name -> its unit, or the end of it; of several that fit, the first counts. A column
#: in a unit of time has one of these endings, and no other column has.
CLOCKS = {
    "_per_wall_s": "/ wall s",
    "_wall_s": "wall s",
    "_per_s": "/ experiment s",
    "_s": "experiment s",
    "_ms": "wall ms",
    "_us": "experiment us",
    "_ns": "ns since 1970 UTC",
}
#: Units of the columns of a captured frame (`captures.frames.columns`).
_FRAME_UNITS = dict.fromkeys(("length", "captured", "total_length", "payload_length"), "bytes")
#: Types that Arrow has no name for.
_TYPES = {
    "list<int32>": pa.list_(pa.int32()),
    "pieces": pa.list_(
        pa.struct([("start_ns", pa.int64()), ("experiment_s", pa.float64()), ("rate", pa.float64())])
    ),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        type: as Arrow reads it from the Parquet files.
        unit: unit of the values, or the objects that are counted; empty: neither applies.
        meaning: says also what null means.
    """

    name: str
    type: pa.DataType
    unit: str
    meaning: str


@dataclass(frozen=True)
class Table:
    """A table of a run.

    Attributes:
        grain: the thing that one row describes.
        columns: in the order of the Parquet files.
        folders_by: the column by whose values the table is stored in folders; the files do not hold it.
    """

    name: str
    grain: str
    columns: tuple[Column, ...]
    folders_by: str | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return pa.schema([(column.name, column.type) for column in self.columns])


def _column(name: str, type_: str, unit: str, meaning: str) -> Column:
    return Column(name, _TYPES.get(type_) or pa.type_for_alias(type_), unit, meaning)


def _listed(entry: str | Sequence[str]) -> Column:
    """A column of a table, as the file lists it."""
    match entry:
        case str():
            return SHARED[entry]
        case [name, meaning]:
            return Column(name, SHARED[name].type, SHARED[name].unit, meaning)
    return _column(*entry)


def _frame_columns() -> tuple[Column, ...]:
    """The columns of a decoded frame, with the time and the name that other tables have for them."""
    units = {name: unit for end, unit in reversed(CLOCKS.items()) for name in COLUMNS if name.endswith(end)}
    columns = [
        Column(name, arrow, {**units, **_FRAME_UNITS}.get(name, ""), meaning)
        for name, (arrow, meaning) in COLUMNS.items()
    ]
    places = {column.name: place for place, column in enumerate(columns)}
    sender = "of a MSG: node that sent the message, as `issuer`; null: another type"
    columns.insert(places["issuer"] + 1, Column("source", pa.int64(), "", sender))
    columns.insert(
        places["time_ns"] + 1, Column("time_s", pa.float64(), CLOCKS["_s"], "when it was captured")
    )
    return tuple(columns)


def _table(name: str, row: str, columns: Sequence[Any]) -> Table:
    if name == "frames":
        return Table(name, row, _frame_columns(), folders_by="type")
    return Table(name, row, tuple(map(_listed, columns)))


_FILE: Mapping[str, Any] = tomllib.loads(
    files(__package__).joinpath("catalogue.toml").read_text(encoding="utf-8")
)
#: The columns that several tables share, by name: what a table says beside the meaning is its own.
SHARED = {name: _column(name, *described) for name, described in _FILE["columns"].items()}
#: The tables of a run, by name, in the order of docs/reference/tables.md.
TABLES = {name: _table(name, **described) for name, described in _FILE["tables"].items()}
