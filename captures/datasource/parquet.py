"""Tables of captures as Parquet, written by the tasks that decode the captures.

Spark's writer takes every row through the JVM, which costs more than the decoding. Here each task writes the
batches of the decoder with pyarrow, and Spark only starts the tasks.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import SparkSession

from captures.datasource.formats import CaptureReader, CbcbSource, PcapSource
from captures.datasource.options import OptionError
from captures.datasource.views import View
from captures.frames.parts import FilePart
from captures.pcap.opening import place_of
from captures.spark.session import ship
from captures.spark.workers import freeze_new_imports

_COMPRESSIONS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
#: Rows of a row group.
_GROUP_ROWS = 262_144
#: Files of tasks that have not been committed yet; names with `_` are no data to readers of Parquet.
_UNFINISHED = "_unfinished"
_SOURCES = {"pcap": PcapSource, "cbcb": CbcbSource}


def write_parquet(
    spark: SparkSession,
    source: str,
    paths: str | Path | Sequence[str | Path],
    target: str | Path,
    options: Mapping[str, str] | None = None,
    compression: str = "snappy",
) -> int:
    """Writes a view of captures as a folder of Parquet files.

    The folder appears whole: the files of the tasks are moved into it when all tasks have ended.

    Args:
        source: `pcap` or `cbcb`.
        paths: as for `load`.
        target: folder or URI that does not exist yet, or is empty. On a cluster all workers must reach it.
        options: the options of the format.
        compression: `none`, `snappy`, `gzip`, `brotli`, `lz4` or `zstd`.

    Returns:
        The number of rows.

    Raises:
        OptionError: an option, `source` or `target` is malformed.
        FileExistsError: `target` contains files.
    """
    if source not in _SOURCES:
        raise OptionError(f"format {source!r}; expected {' or '.join(_SOURCES)}")
    if compression not in _COMPRESSIONS:
        raise OptionError(f"compression {compression!r}; expected one of {', '.join(_COMPRESSIONS)}")
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    made = _SOURCES[source]({**(options or {}), "paths": json.dumps([str(path) for path in given])})
    settings, view = made.options_and_view()
    groups = [group.parts for group in CaptureReader(settings, view).partitions()]
    system, folder = place_of(target)
    if any(info.type is fs.FileType.File for info in _listing(system, folder)):
        raise FileExistsError(f"{target}: the folder contains files; expected none")
    unfinished = f"{folder}/{_UNFINISHED}-{uuid.uuid4().hex}"
    system.create_dir(unfinished)
    target_text = str(target)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _write_part(target_text, unfinished, view, groups[number], compression)
        freeze_new_imports()

    ship(spark)
    try:
        count = len(groups)
        tasks = spark.range(0, count, 1, count).mapInArrow(write, "file string, rows bigint")
        written = [(row.file, row.rows) for row in tasks.collect()]
        for number, (file, rows) in enumerate(sorted(written)):
            if rows or number == 0:
                system.move(file, f"{folder}/part-{number:05}.parquet")
    finally:
        system.delete_dir(unfinished)
    with system.open_output_stream(f"{folder}/_SUCCESS"):
        pass
    return sum(rows for _, rows in written)


def _write_part(
    target: str, unfinished: str, view: View, parts: Sequence[FilePart], compression: str
) -> pa.RecordBatch:
    """Writes the rows of some parts as one file; a row with the file and its number of rows."""
    system, _ = place_of(target)
    # A task may run twice.
    file = f"{unfinished}/{uuid.uuid4().hex}.parquet"
    rows, held = 0, list[pa.RecordBatch]()
    with (
        system.open_output_stream(file) as stream,
        pq.ParquetWriter(stream, view.schema, compression=compression, store_schema=False) as writer,
    ):

        def flush() -> None:
            if held:
                writer.write_table(pa.Table.from_batches(held), row_group_size=_GROUP_ROWS)
                held.clear()

        for batch in view.read_all(parts):
            held.append(batch)
            rows += batch.num_rows
            if sum(each.num_rows for each in held) >= _GROUP_ROWS:
                flush()
        flush()
    return pa.RecordBatch.from_pydict({"file": [file], "rows": [rows]})


def _listing(system: fs.FileSystem, folder: str) -> list[fs.FileInfo]:
    listing: list[fs.FileInfo] = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return listing
