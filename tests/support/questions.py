"""Answers to questions about the tables of a run, as Python values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from captures.rundir import RunLayout
from captures.tables import TABLES
from captures.tables.query import asked
from captures.tables.store import folder


def ask(run: Path, sql: str) -> list[dict[str, Any]]:
    with asked(run, sql) as (_, relation):
        rows: list[dict[str, Any]] = relation.to_arrow_table().to_pylist()
    return rows


def empty_tables(run: Path) -> Path:
    """Makes a run folder whose tables have no row, and returns it."""
    for name, table in TABLES.items():
        folder(run, name).mkdir(parents=True)
        pq.write_table(table.schema.empty_table(), folder(run, name) / "part-0.parquet")
    RunLayout(run).manifest.write_text("{}")
    return run
