"""The stages of the accounting of a run, with their times."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypedDict

from captures.rundir.files import write_json
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile


class StageTime(TypedDict):
    """A stage; stages overlap, and the time of one holds its waiting for others."""

    name: Annotated[str, "name of a table, of a function that makes keys of the summary, or of other work"]
    began_s: Annotated[float, "wall seconds from the start of the accounting to that of the stage"]
    seconds: Annotated[float, "wall seconds of the stage"]


class Accounting(TypedDict):
    """The work of the accounting that made the tables."""

    engine: Annotated[str, "`spark` or `duckdb`"]
    master: Annotated[str | None, "Spark's master URL; null: another engine"]
    seconds: Annotated[float, "wall seconds of all stages together"]
    stages: Annotated[list[StageTime], "in the order in which they began"]


FILE = RunFile(
    lambda run: [run.accounting],
    "The stages of the accounting that made the tables, with their times; replaced together with the tables.",
    (("", Accounting), ("`stages`", StageTime)),
)


def write_accounting(tables: Path, accounting: Accounting) -> None:
    """Writes the file into a folder of tables: of a run, or of new tables that will replace those."""
    write_json(tables / RunLayout(tables).accounting.name, accounting)
