"""Queries in SQL over the tables of a run (docs/reference/tables.md); each is a view under its own name.

DuckDB answers them in this process, in a fraction of a second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias, TypeVar

import duckdb
import pyarrow as pa

from captures.rundir.files import RunFolderError
from captures.tables import TABLES, store

_T = TypeVar("_T")
#: DuckDB needs more memory than it may take, and cannot spill.
OutOfMemory = duckdb.OutOfMemoryException
#: Any error of DuckDB.
DatabaseError = duckdb.Error
#: A database that holds the tables of a run.
Database: TypeAlias = duckdb.DuckDBPyConnection
#: The statements of a text in SQL.
statements = duckdb.extract_statements
#: A query of a database, which runs where its rows are read.
Relation: TypeAlias = duckdb.DuckDBPyRelation
#: Statements that touch nothing but the database in memory.
_STATEMENTS = frozenset(
    getattr(duckdb.StatementType, name)
    for name in (
        "SELECT",
        "CREATE",
        "INSERT",
        "UPDATE",
        "DELETE",
        "DROP",
        "ALTER",
        "RELATION",
        "VARIABLE_SET",
    )
)
#: Extensions would come over the network; names of tables must not refer to variables of this process.
CLOSED: dict[str, Any] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
_EXPLAIN = re.compile(r"^\s*explain\s+(analyze\s+)?", re.IGNORECASE)
#: Errors of statements; others are of the tables that they read, or of the machine.
_OF_STATEMENTS = (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError)
#: Of the memory that the machine or the control group has: what is free depends on the moment.
_MEMORY = "50%"


class QueryError(ValueError):
    """A query cannot be answered, or the run has no tables; the message says why."""


def sql_types(run: Path) -> dict[str, dict[str, str]]:
    """The types of the columns that the tables of a run have, in the order of docs/reference/tables.md.

    Raises:
        QueryError: tables are missing.
    """
    with connect(run) as database:
        rows = {name: database.execute(f"describe {name}").fetchall() for name in table_names(run)}
    return {name: {column: str(kind).lower() for column, kind, *_ in rows[name]} for name in rows}


@contextmanager
def asked(run: Path, sql: str, folder: Path | None = None) -> Iterator[tuple[Database, Relation]]:
    """The answer to the last of one or several statements, which DuckDB computes where the block reads it.

    Args:
        folder: a folder into which the block may write the answer; None: into no file.

    Raises:
        QueryError: the run has no tables; the SQL is wrong, or fails.
        RunFolderError: a table cannot be read.
    """
    with connect(run, folder) as database:
        try:
            yield database, interruptible(database, lambda: _relation(database, sql))
        except _OF_STATEMENTS as error:
            raise QueryError(str(error).strip()) from error


def _relation(database: Database, sql: str) -> Relation:
    _check(sql)
    relation = database.sql(sql)
    if relation is None:
        raise QueryError("nothing was asked; expected SQL, such as SELECT * FROM messages")
    return relation.select("*")  # with distinct names of columns


def interruptible(database: Database, work: Callable[[], _T]) -> _T:
    """The result of work on a database; Ctrl-C ends the work."""
    # DuckDB lets no signal through while it works: it works in a thread.
    with ThreadPoolExecutor(max_workers=1) as pool:
        try:
            return pool.submit(work).result()
        except KeyboardInterrupt:
            # DuckDB forgets an interruption between two queries. The next task begins after the work.
            ended = pool.submit(int)
            while not ended.done():
                database.interrupt()
                wait([ended], timeout=0.05)
            raise


def batches(database: Database, relation: Relation, rows: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a relation as batches that are not empty; Ctrl-C ends the work.

    Raises:
        DatabaseError: the query fails.
    """
    reader = interruptible(database, lambda: relation.to_arrow_reader(rows))
    while True:
        try:
            batch = interruptible(database, lambda: next(reader, None))
        except (OSError, pa.ArrowException) as error:
            # Arrow hands on an error of DuckDB as an error of its own.
            raise duckdb.DataError(str(error)) from error
        if batch is None:
            return
        if batch.num_rows:
            yield batch


@contextmanager
def reading(database: Database, name: str, reader: pa.RecordBatchReader) -> Iterator[None]:
    """Names the rows of a reader for queries; its error replaces that which DuckDB makes of it."""
    failed: list[Exception] = []

    def rows() -> Iterator[pa.RecordBatch]:
        try:
            yield from reader
        except Exception as error:
            failed.append(error)
            raise

    database.register(name, pa.RecordBatchReader.from_batches(reader.schema, rows()))
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if failed:
            raise failed[0] from error
        raise


def _check(sql: str) -> None:
    """Raises QueryError for a statement that would write a file, which the run's own folder would permit."""
    for statement in duckdb.extract_statements(sql):
        if statement.type == duckdb.StatementType.EXPLAIN:
            _check(_EXPLAIN.sub("", statement.query))
        elif statement.type not in _STATEMENTS:
            raise QueryError(
                f"{statement.query.strip()}: a question reads the run's tables and writes no file;"
                " expected SELECT, or CREATE TABLE and the like in memory (--output FILE writes the answer)"
            )


@contextmanager
def new_database(folder: Path | None = None, **settings: str | int) -> Iterator[Database]:
    """An empty database in memory, of at most half of the memory, which prints no progress.

    What does not fit into memory is in a temporary folder until the block ends.

    Args:
        folder: holds the temporary folder; None: the system's folder for temporary files.
    """
    with TemporaryDirectory(prefix="cbcb-query-", dir=folder) as spilled:
        own = {"memory_limit": _MEMORY, "temp_directory": spilled}
        with duckdb.connect(":memory:", config={**own, **settings}) as database:
            database.execute("set enable_progress_bar = false")
            yield database


def restrict(database: Database, *folders: str | Path) -> None:
    """From now on a database reads and writes no file outside of the folders, and keeps its settings."""
    database.execute("set allowed_directories = $folders", {"folders": [f"{each}/" for each in folders]})
    database.execute("set enable_external_access = false")
    database.execute("set lock_configuration = true")


@contextmanager
def connect(run: Path, folder: Path | None = None) -> Iterator[Database]:
    """A database in memory, as of `new_database`, with a view for each table of a run.

    It reads the tables alone: no other file, and nothing from the network. `folder`: as of `asked`.

    Raises:
        QueryError: the run has no tables, or a table cannot be opened.
        RunFolderError: a statement of the block fails, as where the file of a table is damaged.
    """
    names = table_names(run)
    run = run.resolve()
    with new_database(**CLOSED) as database:
        _open_tables(database, run, names)
        restrict(database, *(each for each in (store.folder(run, ""), folder) if each is not None))
        try:
            yield database
        except (duckdb.Error, pa.ArrowException) as error:
            damaged = next((name for name in names if not _is_readable(database, name)), "")
            raise RunFolderError(f"{store.folder(run, damaged)}: {str(error).strip()}") from error


def _is_readable(database: Database, name: str) -> bool:
    try:
        database.execute(f"select max(hash(columns(*))) from {name}")
    except duckdb.Error:
        return False
    return True


def _open_tables(database: Database, run: Path, names: Sequence[str]) -> None:
    for name in names:
        if store.is_empty(run, name):
            database.register(name, TABLES[name].schema.empty_table())
            continue
        files = str(store.folder(run, name) / "**" / "*.parquet").replace("'", "''")
        try:
            database.execute(
                f"create view {name} as select * from read_parquet('{files}', hive_partitioning = true)"
            )
        except duckdb.Error as error:
            raise QueryError(f"{store.folder(run, name)}: {error}; {store.remedy(run)}") from error


def table_names(run: Path) -> list[str]:
    """The names of the tables of a run: all of `TABLES`.

    Raises:
        QueryError: tables are missing, or do not belong to the summary; the message names the remedy.
    """
    wrong = store.lacking(run, TABLES)
    if wrong is not None:
        raise QueryError(wrong)
    return list(TABLES)
