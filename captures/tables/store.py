"""Writes the tables of a run, and finds them.

They are written into a folder of their own, which replaces the folder of tables when all tables are complete.
Until the summary is written, too, a third folder marks the accounting as unfinished, and readers refuse the
tables.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from captures.rundir import RunLayout, accounting
from captures.rundir.files import RunFolderError
from captures.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame  # loading it takes a while, which a reader need not wait for

FRAMES = "frames"
#: The most tables that an error names.
_NAMED = 3
#: The setting by which Hadoop leaves a file `_SUCCESS` in a folder that a job has written.
_MARKING = "mapreduce.fileoutputcommitter.marksuccessfuljobs"


class BusyError(ValueError):
    """Another process is writing the tables of the run."""


def folder(run: Path, table: str) -> Path:
    """The folder with the Parquet files of a table of a run."""
    return RunLayout(run).tables / table


def read(run: Path, table: str, columns: Iterable[str] = ()) -> pa.Table | None:
    """Reads columns of a table of a run, or all of them; None: the run has no such table.

    Raises:
        RunFolderError: a file is damaged or cannot be read, or a column is missing.
    """
    path = folder(run, table)
    try:
        return pq.read_table(path, columns=list(columns) or None) if path.exists() else None
    except (OSError, ValueError, pa.ArrowException) as error:
        raise RunFolderError(f"{path}: expected a table in Parquet: {error}") from error


@contextmanager
def new_tables(run: Path) -> Iterator[Path]:
    """An empty folder for new tables of a run.

    Its contents are removed unless `publish` is called.

    Raises:
        BusyError: another process is writing tables of the run.
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
    """Replaces the tables of a run by the new ones, whose summary is written within the context.

    If writing it fails, the old tables come back, unless an earlier accounting was interrupted.
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
        # Not after Ctrl-C, which may come after the summary is written: readers then refuse the tables.
        take_back()
        raise
    shutil.rmtree(removed, ignore_errors=True)
    # By renaming, which is atomic: a half removed folder would mean that the accounting was interrupted.
    former.rename(removed)
    shutil.rmtree(removed, ignore_errors=True)


@contextmanager
def _alone(run: Path) -> Iterator[None]:
    held = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Some file systems cannot lock folders.
        with suppress(OSError):
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BusyError(f"{run}: another accounting of it goes on") from error
        yield
    finally:
        os.close(held)


def lacking(run: Path, tables: Iterable[str]) -> str | None:
    """The defect of a run's tables, with the remedy; None: they are complete, and belong to the summary."""
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
    """The remedy for missing tables of a run, as part of a message."""
    if not (timings := RunLayout(run).timings).is_file():
        return f"it cannot be accounted for without {timings.name}, which a run writes at its end"
    return f"`{accounting(run)}` makes all anew"


def _is_whole(run: Path, name: str) -> bool:
    # `publish` brings the tables when all are written; a folder by the values of a column may have no file.
    return folder(run, name).is_dir() if TABLES[name].folders_by else not is_empty(run, name)


def is_empty(run: Path, name: str) -> bool:
    """Whether a table has no file, as the frames of a run that captured none."""
    return next(folder(run, name).rglob("*.parquet"), None) is None


def write(table: DataFrame, tables: Path, name: str) -> None:
    """Writes a table of the catalogue into the folder of all tables, as a job of Spark.

    The table gets a folder with one Parquet file, or where the catalogue says so a folder for each value of
    one of its columns; Hadoop leaves no file of its own there, which other readers take for data.
    """
    by = TABLES[name].folders_by
    writer = (table if by else table.coalesce(1)).write.mode("overwrite").option(_MARKING, "false")
    writer.parquet(str(tables / name), partitionBy=by)
    for checksum in (tables / name).rglob(".*.crc"):
        checksum.unlink()


def write_arrow(table: pa.Table | pa.RecordBatchReader, tables: Path, name: str) -> None:
    """Writes a table that this process holds, or a stream of its rows."""
    path = tables / name
    path.mkdir()
    by = TABLES[name].folders_by
    if by is not None:
        folders = ds.partitioning(pa.schema([table.schema.field(by)]), flavor="hive")
        ds.write_dataset(table, path, format="parquet", partitioning=folders)
        return
    with pq.ParquetWriter(path / "part-0.parquet", table.schema) as writer:
        for batch in table.to_reader() if isinstance(table, pa.Table) else table:
            writer.write_batch(batch)
