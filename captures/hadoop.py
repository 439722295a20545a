"""Captures on any file system that Hadoop knows (`hdfs:`, `s3a:`, `viewfs:`, ...), read by Spark's own JVM.

The formats `pcap` and `cbcb` read in Python, and so need a library for the file system there. Here Spark
hands the content of each file to a task, whole: nothing is needed beyond what Spark needs for the path; a
file is not split, and must fit into the memory of a task (2 GB at most).
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from captures.decode import CaptureIdentity
from captures.packets.splitting import FilePart
from captures.pcap import PcapError
from captures.rundir import RunFolder
from captures.session import ship
from captures.sources.options import read_options
from captures.sources.views import CBCB_VIEWS, PCAP_VIEWS, View, spark_schema
from captures.worker_process import imports_are_done

_VIEWS = {"pcap": PCAP_VIEWS, "cbcb": CBCB_VIEWS}
#: Options of the formats that Spark knows itself.
_OF_SPARK = ("pathGlobFilter", "recursiveFileLookup")
#: Options that are about parts of files.
_OF_PARTS = ("partitionBytes", "partitions")


def read_hadoop(
    spark: SparkSession, path: str, source: str = "pcap", *, run: Path | None = None, **options: str
) -> DataFrame:
    """The captures at a Hadoop path (file, directory or glob), with the views and columns of a format.

    Args:
        source: `pcap` or `cbcb`.
        run: the run folder, on this machine, that says which capture of it each file is, by their names.
        options: those of the format, except `partitionBytes` and `partitions`.

    Raises:
        ValueError: no such source or option.
        RunFolderError: a file of the run folder is missing or bad.
        AnalysisException: Spark cannot read the path.
    """
    if source not in _VIEWS:
        raise ValueError(f"source: {source!r}; expected {' or '.join(_VIEWS)}")
    given = read_options(source, {"path": path, **options}, _VIEWS[source])
    for name in options:
        if name.lower() in map(str.lower, _OF_PARTS):
            raise ValueError(f"option {name}: files at Hadoop paths are not split")
    view = View(given.view, given.columns, given.skip_bad_files, bin_ns=given.bin_ns)
    names = {} if run is None else _identities(run)
    ship(spark)
    files = spark.read.format("binaryFile").options(
        **{name: value for name, value in options.items() if name in _OF_SPARK}
    )

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for uri, content in zip(batch.column("path"), batch.column("content"), strict=True):
                yield from _rows(uri.as_py(), content.as_buffer(), view, names)
        imports_are_done()

    schema = spark_schema(_VIEWS[source], given.view, given.columns)
    return files.load(path).select("path", "content").mapInArrow(read, schema)


def _identities(run: Path) -> dict[str, CaptureIdentity]:
    """The captures of a run by the names of their files."""
    return {Path(path).name: identity for path, identity in RunFolder(run).capture_paths().items()}


def _rows(
    uri: str, content: pa.Buffer, view: View, names: dict[str, CaptureIdentity]
) -> Iterator[pa.RecordBatch]:
    """The rows of one file, by way of a file of this machine: what reads captures reads files."""
    name = PurePosixPath(uri).name
    with tempfile.TemporaryDirectory(prefix="cbcb-hadoop-") as folder:
        local = Path(folder) / name
        local.write_bytes(content)
        own = replace(view, captures={str(local): names[name]} if name in names else {})
        try:
            with warnings.catch_warnings(record=True) as told:
                for batch in own.read(FilePart(str(local), size=len(content))):
                    yield _with_uri(batch, uri)
        except PcapError as error:
            raise PcapError(str(error).replace(str(local), uri)) from error
        for warning in told:
            warnings.warn(str(warning.message).replace(str(local), uri), stacklevel=2)


def _with_uri(batch: pa.RecordBatch, uri: str) -> pa.RecordBatch:
    """The URI of the file in column `file`, if there is one."""
    at = batch.schema.get_field_index("file")
    return batch if at < 0 else batch.set_column(at, "file", pa.repeat(pa.scalar(uri), batch.num_rows))
