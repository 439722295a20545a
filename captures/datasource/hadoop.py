"""Captures on any file system of Hadoop (`hdfs:`, `s3a:`, `viewfs:`, ...), read by Spark's own JVM.

The formats `pcap` and `cbcb` read files in Python, and need a Python library for the file system.
`read_hadoop` needs what Spark needs for the path, and nothing else: Spark passes the whole content of each
file to a task. Files are therefore not split, and the JVM needs several times their size; files that are too
large for it are refused before any file is read.
"""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from captures.datasource.options import OptionError, read_options
from captures.datasource.views import CBCB_VIEWS, PCAP_VIEWS, View, spark_schema, view_of
from captures.frames.identity import CaptureIdentity
from captures.frames.parts import FilePart
from captures.pcap.listing import is_capture_name, is_hidden, is_index
from captures.pcap.reader import PcapError
from captures.rundir.capture_list import capture_paths
from captures.rundir.layout import RunLayout
from captures.spark.internals import executor_memory_mib, hadoop_configuration, jvm
from captures.spark.shipping import ship
from captures.spark.workers import freeze_new_imports

_VIEWS = {"pcap": PCAP_VIEWS, "cbcb": CBCB_VIEWS}
#: Options of the formats about parts of files and about paths, which `read_hadoop` does not take.
_REFUSED = {"partitionbytes", "partitions", "path", "paths"}
#: Heap of the JVM for each byte of a file; measured: between six and ten.
_HEAP_OF_FILE = 10


def read_hadoop(
    spark: SparkSession, path: str, source: str = "pcap", *, run: Path | None = None, **options: str
) -> DataFrame:
    """The captures at a Hadoop path (file, directory or glob), with the views and columns of a format.

    Of a directory, the files with names of captures are read, as by the formats; indexes are skipped.

    Args:
        source: `pcap` or `cbcb`.
        run: folder of a run on this machine, by which the names of files identify captures.
        options: options of the format, except `path`, `paths`, `partitionBytes` and `partitions`.

    Raises:
        OptionError: an unknown source or option, or a malformed value of an option.
        RunFolderError: a file of the run folder is missing or malformed.
        ValueError: a file is too large for the JVM's heap; no file belongs to the run; or a cluster lacks the
            setting by which the largest size is computed.
        FileNotFoundError: the path does not exist, or a glob matches nothing.
        OSError: Hadoop cannot list it.
    """
    if source not in _VIEWS:
        raise OptionError(f"source: {source!r}; expected {' or '.join(_VIEWS)}")
    for name in options:
        if name.lower() in _REFUSED:
            raise OptionError(f"{source}: option {name}: expected one path, whose files are not split")
    given = read_options(source, {"path": path, **options}, _VIEWS[source])
    view = view_of(given)
    schema = spark_schema(_VIEWS[source], given.view, given.columns)
    uris = _captures(spark, path, given.name_glob, given.recursive)
    names = {} if run is None else _identities(run)
    if names and uris and not any(PurePosixPath(uri).name in names for uri in uris):
        raise ValueError(f"{path}: no file is named as a capture of {run}; expected {next(iter(names))}, ...")
    if not uris:
        return spark.createDataFrame([], schema)
    ship(spark)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for uri, content in zip(batch.column("path"), batch.column("content"), strict=True):
                yield from _rows(uri.as_py(), content.as_buffer(), view, names)
        freeze_new_imports()

    # Spark reads names as globs: their special characters are escaped.
    plain = [re.sub(r"([{}\[\]*?\\])", r"\\\1", uri) for uri in uris]
    files = spark.read.format("binaryFile").load(plain).select("path", "content")
    return files.mapInArrow(read, schema)


def _captures(spark: SparkSession, path: str, name_glob: str | None, recursive: bool) -> list[str]:
    """The URIs of the captures at a path.

    Raises:
        ValueError: the JVM's heap is too small for a file.
    """
    most = _most_bytes(spark)
    uris = []
    for uri, length in sorted(_listed(spark, path, name_glob, recursive)):
        if length > most:
            raise ValueError(
                f"{uri}: {length} bytes; expected at most {most}, a {_HEAP_OF_FILE}th of the JVM's heap for "
                "each core: a file goes through it whole (spark.driver.memory, spark.executor.memory)"
            )
        uris.append(uri)
    return uris


def _listed(
    spark: SparkSession, path: str, name_glob: str | None, recursive: bool
) -> Iterator[tuple[str, int]]:
    """URI and length of the file at a path, or of the captures below it, as Hadoop's shell finds them."""
    context = spark.sparkContext
    try:
        path_of = jvm(context).org.apache.hadoop.fs.Path
        at = path_of(path)
        system = at.getFileSystem(hadoop_configuration(context))
        # A name may contain the special characters of globs.
        if system.exists(at):
            tops = [system.getFileStatus(at)]
        else:
            tops = [
                status
                for status in system.globStatus(at) or ()
                if not is_index(status.getPath().toString(), lambda uri: bool(system.exists(path_of(uri))))
            ]
        if not tops:
            raise FileNotFoundError(f"{path}: no such file or directory, or a glob that matches none")
        folders = [status.getPath() for status in tops if status.isDirectory()]
        files = [status for status in tops if status.isFile()]
        while folders:
            inside = list(system.listStatus(folders.pop()))
            names = {status.getPath().getName() for status in inside}
            for status in inside:
                name = status.getPath().getName()
                if status.isFile():
                    if is_capture_name(name, name_glob) and not is_index(name, names.__contains__):
                        files.append(status)
                elif status.isDirectory() and recursive and not is_hidden(name):
                    folders.append(status.getPath())
        yield from ((status.getPath().toString(), int(status.getLen())) for status in files)
    except Py4JJavaError as error:
        raise OSError(f"{path}: {error.java_exception.getMessage()}") from error


def _most_bytes(spark: SparkSession) -> int:
    """The size in bytes of the largest file that a task can read."""
    context = spark.sparkContext
    local = re.fullmatch(r"local(?:\[([0-9*]+)(?:,.*)?\])?", context.master)
    if local is not None:
        heap = int(jvm(context).java.lang.Runtime.getRuntime().maxMemory())
        cores = (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
    else:
        heap = executor_memory_mib(context) * 1024 * 1024
        # On other clusters, an executor without the setting uses all cores of its worker.
        usual = "1" if context.master.startswith(("yarn", "k8s")) else None
        text = context.getConf().get("spark.executor.cores", usual)
        if text is None:
            raise ValueError("expected the setting spark.executor.cores, to compute how large a file may be")
        cores = int(text)
    # An array of Java and a value of Spark have at most 2 GB.
    return min(heap // (_HEAP_OF_FILE * cores), 2**31 - 16)


def _identities(run: Path) -> dict[str, CaptureIdentity]:
    """The captures of a run by the names of their files."""
    return {Path(path).name: identity for path, identity in capture_paths(RunLayout(run)).items()}


def _rows(
    uri: str, content: pa.Buffer, view: View, names: Mapping[str, CaptureIdentity]
) -> Iterator[pa.RecordBatch]:
    """The rows of one file, by way of a copy on this machine, because captures are read from files."""
    name = PurePosixPath(uri).name
    with tempfile.TemporaryDirectory(prefix="cbcb-hadoop-") as folder:
        local = Path(folder) / name
        local.write_bytes(content)
        own = replace(view, captures={str(local): names[name]} if name in names else {})
        batches = own.read(FilePart(str(local), size=len(content)))
        while True:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    batch = next(batches, None)
                except PcapError as error:
                    raise PcapError(str(error).replace(str(local), uri)) from error
            for warning in caught:
                warnings.warn(str(warning.message).replace(str(local), uri), stacklevel=2)
            if batch is None:
                return
            yield _renamed(batch, str(local), uri)


def _renamed(batch: pa.RecordBatch, local: str, uri: str) -> pa.RecordBatch:
    """The batch with the URI in place of the path in its columns `file` and `error`."""
    for name in {"file", "error"} & set(batch.schema.names):
        at = batch.schema.get_field_index(name)
        texts = [None if text is None else text.replace(local, uri) for text in batch.column(at).to_pylist()]
        batch = batch.set_column(at, name, pa.array(texts, pa.string()))
    return batch
