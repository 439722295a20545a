"""The tables of a run: writing them, and finding them again.

They are written into a folder beside, which takes the place of the folder of tables when all are there and
nothing but the summary is missing. Until the summary is written too, a third folder says so, and readers
refuse the tables.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from captures.rundir.layout import RunLayout
from captures.tables.catalogue import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame  # loading it takes a while, which a reader need not wait for

FRAMES = "frames"
#: Tables that an error names.
_NAMED = 3
#: What Spark leaves in a folder that it has written whole.
_WRITTEN = "_SUCCESS"


class BusyError(ValueError):
    """Another process makes the tables of this run."""


def folder(run: Path, table: str) -> Path:
    """Where a table of a run is: a folder of Parquet files."""
    return RunLayout(run).tables / table


@contextmanager
def new_tables(run: Path) -> Iterator[Path]:
    """An empty folder for the tables of a run; what is in it is lost unless `publish` takes it.

    Raises:
        BusyError: another process makes them now.
    """
    layout = RunLayout(run)
    new = layout.tables_new
    with _alone(run):
        for stale in (new, layout.tables_removed):
            shutil.rmtree(stale, ignore_errors=True)
        new.mkdir()
        try:
            yield new
        finally:
            shutil.rmtree(new, ignore_errors=True)


@contextmanager
def publish(run: Path) -> Iterator[None]:
    """Puts the new tables in the place of the old. The block writes what belongs to them: the summary.

    If it fails, the old ones come back, unless they were in doubt before.
    """
    layout = RunLayout(run)
    tables, former, removed = layout.tables, layout.tables_former, layout.tables_removed
    in_doubt = former.exists()  # another accounting was interrupted here
    replaced = tables.exists() and not in_doubt

    def take_back() -> None:
        if replaced and former.exists():
            if tables.exists():
                tables.rename(removed)
            former.rename(tables)
            shutil.rmtree(removed, ignore_errors=True)

    try:
        if replaced:
            tables.rename(former)
        elif tables.exists():
            tables.rename(removed)
        else:
            former.mkdir(exist_ok=True)
        layout.tables_new.rename(tables)
    except BaseException:
        take_back()
        raise
    try:
        yield
    except Exception:
        # Not after Ctrl-C, which may have come when the summary was written: then readers are told.
        take_back()
        raise
    shutil.rmtree(removed, ignore_errors=True)
    # At once: a part of it would say that this is not done.
    former.rename(removed)
    shutil.rmtree(removed, ignore_errors=True)


@contextmanager
def _alone(run: Path) -> Iterator[None]:
    held = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Not every file system has locks of folders.
        with suppress(OSError):
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BusyError(f"{run}: another accounting of it goes on") from error
        yield
    finally:
        os.close(held)


def lacking(run: Path, tables: Iterable[str]) -> str | None:
    """What is wrong with the tables of a run, and what mends it; None: each is there, whole, and in force."""
    mends = remedy(run)
    layout = RunLayout(run)
    if layout.tables_former.exists():
        return f"{run}: the accounting was interrupted; {mends}"
    if not layout.tables.is_dir():
        if layout.tables_new.exists():
            return f"{run}: the accounting was interrupted, or still goes on; {mends}"
        return f"{run}: has no tables; {mends}"
    missing = [name for name in tables if not _is_whole(run, name)]
    if missing:
        names = ", ".join(missing[:_NAMED]) + (", ..." if len(missing) > _NAMED else "")
        return f"{run}: no table {names}: the accounting was interrupted, or an older version's; {mends}"
    return None


def remedy(run: Path) -> str:
    """What mends missing tables of a run."""
    return f"`{accounting(run)}` makes all anew"


def accounting(run: Path) -> str:
    """The command that accounts for a run, as a shell takes it."""
    return f"cbcb account {shlex.quote(str(run))}"


def _is_whole(run: Path, name: str) -> bool:
    path = folder(run, name)
    return (path / _WRITTEN).exists() or not is_empty(run, name)


def is_empty(run: Path, name: str) -> bool:
    """True if a table has no file at all: the frames of a run that captured none."""
    return next(folder(run, name).rglob("*.parquet"), None) is None


def write(table: DataFrame, tables: Path, name: str, *, collect: bool) -> None:
    """Writes a table of the catalogue into the folder of all tables.

    The table gets a folder with one Parquet file, or where the catalogue says so a folder for each value of
    one of its columns.

    Args:
        collect: whether this process writes the file: for a small table, a job of Spark takes longer.
    """
    path = tables / name
    by = TABLES[name].folders_by
    if by is not None:
        table.write.mode("overwrite").partitionBy(by).parquet(str(path))
    elif collect:
        write_arrow(table.toArrow(), tables, name)
    else:
        table.coalesce(1).write.mode("overwrite").parquet(str(path))


def write_arrow(table: pa.Table, tables: Path, name: str) -> None:
    """Writes a table that this process holds."""
    path = tables / name
    path.mkdir()
    pq.write_table(table, path / "part-0.parquet")
