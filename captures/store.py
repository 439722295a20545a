"""The tables under parquet/ in a run folder: writing them, and finding them again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame  # loading it takes a while, which a reader need not wait for

FOLDER = "parquet"
FRAMES = "frames"


def folder(run: Path, table: str) -> Path:
    """Where a table of a run is: a folder of Parquet files."""
    return run / FOLDER / table


def write_frames(frames: DataFrame, run: Path) -> None:
    """The frames, in one folder a type: most questions are about one type."""
    frames.write.mode("overwrite").partitionBy("type").parquet(str(folder(run, FRAMES)))


def write(table: DataFrame, run: Path, name: str, *, collect: bool) -> None:
    """Writes a table as a folder of one Parquet file, in place of what was there.

    Through this process if `collect`: a job of Spark's that writes takes longer than a small table does.
    """
    if collect:
        write_arrow(table.toArrow(), run, name)
    else:
        table.coalesce(1).write.mode("overwrite").parquet(str(folder(run, name)))


def write_arrow(table: pa.Table, run: Path, name: str) -> None:
    """Writes a table that this process holds."""
    path = folder(run, name)
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    pq.write_table(table, path / "part-0.parquet")
