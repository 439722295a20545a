"""Engines that run the texts of `captures.accounting.texts`: their interface, and DuckDB."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from captures.tables import TABLES, store
from captures.tables.query import interruptible, new_database, reading

#: The name under which the text of the frames reads the captured frames.
CAPTURED = "captured"


class Engine(ABC):
    """Tables under names, made by texts of SQL."""

    #: How many queries it runs at a time.
    at_once = 1

    @abstractmethod
    def read_captures(self, name: str, sql: str) -> None:
        """Names the answer to the query that reads `CAPTURED`; the captures are read once."""

    @abstractmethod
    def register(self, name: str, table: pa.Table) -> None:
        """Names a table that this process holds."""

    @abstractmethod
    def define(self, name: str, sql: str, *, shared: bool) -> None:
        """Names the answer to a query.

        Args:
            shared: whether several queries read it, so that it should be computed once.
        """

    @abstractmethod
    def rows(self, name: str) -> pa.Table:
        """The rows of a table."""

    @abstractmethod
    def export(self, name: str, folder: Path) -> None:
        """Writes a table of the catalogue into the folder of all tables."""

    def end(self, work: Iterable[Future[Any]]) -> None:  # noqa: B027 - an engine may have no such queries
        """Ends the queries of `work`, which starts some, in other threads."""


class DuckDB(Engine):
    """DuckDB in this process; what does not fit into memory is in a temporary folder.

    Args:
        captured: the captured frames, of which one batch at a time is in memory.
        threads: of DuckDB; None: as many as the machine has processors.
        spill: folder for the temporary folder; None: that of the system.
    """

    def __init__(
        self, captured: pa.RecordBatchReader, threads: int | None = None, spill: Path | None = None
    ) -> None:
        self._captured = captured
        self._stack = ExitStack()
        settings = {} if threads is None else {"threads": threads}
        self.database = self._stack.enter_context(new_database(spill, **settings))

    def close(self) -> None:
        """Frees the memory, and removes the temporary folder."""
        self._stack.close()

    def register(self, name: str, table: pa.Table) -> None:
        self.database.register(name, table)

    def define(self, name: str, sql: str, *, shared: bool) -> None:
        kind = "table" if shared else "view"
        made = f"create temp {kind} {name} as {sql}"
        interruptible(self.database, lambda: self.database.execute(made))

    def read_captures(self, name: str, sql: str) -> None:
        with reading(self.database, CAPTURED, self._captured):
            self.define(name, sql, shared=True)

    def rows(self, name: str) -> pa.Table:
        return interruptible(self.database, lambda: self.database.table(name).to_arrow_table())

    def export(self, name: str, folder: Path) -> None:
        schema = TABLES[name].schema
        # Names of columns may be words of SQL.
        listed = ", ".join(f'"{column}"' for column in schema.names)

        def write() -> None:
            columns = self.database.sql(f"select {listed} from {name}")
            store.write_arrow(columns.to_arrow_reader().cast(schema), folder, name)

        interruptible(self.database, write)
