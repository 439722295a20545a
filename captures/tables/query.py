"""Questions in SQL about the tables of a run (docs/tables.md), each a view of its own name.

DuckDB answers them in this process, in a fraction of a second; `captures.tables.query_spark` asks Spark
instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import duckdb
import pyarrow as pa

from captures.frames.columns import SCHEMA
from captures.tables import store
from captures.tables.catalogue import TABLES

#: A database that holds the tables of a run.
Database: TypeAlias = duckdb.DuckDBPyConnection
#: Rows that an answer comes in at a time.
_BATCH_ROWS = 50_000


class QueryError(ValueError):
    """A question that cannot be answered, or a run without tables; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a run: what a row is, and its columns, each with its SQL type and its meaning."""

    name: str
    row: str
    columns: tuple[tuple[str, str, str], ...]


def describe(run: Path) -> list[Table]:
    """The tables that a run has, in the order of docs/tables.md.

    Raises:
        QueryError: it has none, or not all.
    """
    found = []
    with connect(run) as database:
        for name in table_names(run):
            row, meanings = TABLES[name]
            kinds = {
                column: str(kind) for column, kind, *_ in database.execute(f"describe {name}").fetchall()
            }
            columns = tuple((one, kinds[one].lower(), text) for one, text in meanings.items() if one in kinds)
            found.append(Table(name, row, columns))
    return found


def ask(run: Path, sql: str) -> Iterator[pa.RecordBatch]:
    """The answer to one or several statements, of which the last one counts. The first batch is empty.

    Raises:
        QueryError: the run has no tables; the SQL is wrong, or fails.
    """
    with connect(run) as database:
        try:
            result = database.sql(sql)
            if result is None:
                raise QueryError("nothing was asked; expected SQL, such as SELECT * FROM messages")
            reader = result.to_arrow_reader(_BATCH_ROWS)
            yield pa.RecordBatch.from_pylist([], schema=reader.schema)
            yield from reader
        except (duckdb.Error, pa.ArrowException) as error:
            raise QueryError(str(error).strip()) from error


def connect(run: Path) -> Database:
    """A database in memory with a view for each table of a run; it fetches nothing from anywhere.

    Raises:
        QueryError: the run has no tables, or one that cannot be read.
    """
    names = table_names(run)
    # Extensions would come over the network; and a table is none of this process's variables.
    settings = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
    }
    database = duckdb.connect(":memory:", config=settings)
    for name in names:
        if store.is_empty(run, name):
            database.register(name, SCHEMA.empty_table())
            continue
        files = str(store.folder(run, name) / "**" / "*.parquet").replace("'", "''")
        try:
            database.execute(
                f"create view {name} as select * from read_parquet('{files}', hive_partitioning = true)"
            )
        except duckdb.Error as error:
            database.close()
            raise QueryError(f"{store.folder(run, name)}: {error}; {store.remedy(run)}") from error
    return database


def table_names(run: Path) -> list[str]:
    """The tables that a run has: all of `TABLES`.

    Raises:
        QueryError: some are missing, or are not those of the summary; says what mends it.
    """
    wrong = store.lacking(run, TABLES)
    if wrong is not None:
        raise QueryError(wrong)
    return list(TABLES)
