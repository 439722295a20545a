"""Captures on any file system that Hadoop knows (`hdfs:`, `s3a:`, `viewfs:`, ...), read by Spark's own JVM.

The formats `pcap` and `cbcb` read in Python, and so need a library for the file system there. Here Spark
hands the content of each file to a task, whole: nothing is needed beyond what Spark needs for the path. But
files are not split, and the JVM takes several times their size; larger ones are refused before any is read.
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
from captures.datasource.views import CBCB_VIEWS, PCAP_VIEWS, View, spark_schema
from captures.frames.identity import CaptureIdentity
from captures.frames.parts import FilePart
from captures.pcap.listing import is_hidden, is_index, is_wanted
from captures.pcap.reader import PcapError
from captures.rundir.capture_list import capture_paths
from captures.rundir.layout import RunLayout
from captures.spark.session import ship
from captures.spark.workers import freeze_new_imports

_VIEWS = {"pcap": PCAP_VIEWS, "cbcb": CBCB_VIEWS}
#: Options of the formats that are about parts of files, and those that say where they are.
_REFUSED = {"partitionbytes", "partitions", "path", "paths"}
#: On its way a file is in the heap of the JVM several times; measured: between six and ten times its size.
_HEAP_OF_FILE = 10


def read_hadoop(
    spark: SparkSession, path: str, source: str = "pcap", *, run: Path | None = None, **options: str
) -> DataFrame:
    """The captures at a Hadoop path (file, directory or glob), with the views and columns of a format.

    Of a directory the files with names that captures have, as the formats do; indexes are left out.

    Args:
        source: `pcap` or `cbcb`.
        run: the run folder, on this machine, that says which capture of it each file is, by their names.
        options: those of the format, except `path`, `paths`, `partitionBytes` and `partitions`.

    Raises:
        OptionError: no such source or option, or a value that it does not take.
        RunFolderError: a file of the run folder is missing or bad.
        ValueError: a file is too large for the JVM's heap, or none of them is of the run; or a cluster's
            setting is missing that tells how large they may be.
        FileNotFoundError: the path does not exist, or a glob matches nothing.
        OSError: Hadoop cannot list it.
    """
    if source not in _VIEWS:
        raise OptionError(f"source: {source!r}; expected {' or '.join(_VIEWS)}")
    for name in options:
        if name.lower() in _REFUSED:
            raise OptionError(f"{source}: option {name}: expected one path, whose files are not split")
    given = read_options(source, {"path": path, **options}, _VIEWS[source])
    view = View(given.view, given.columns, given.skip_bad_files, bin_ns=given.bin_ns, bounds=given.bounds)
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

    # Spark takes names for globs; these are none, whatever is in them.
    plain = [re.sub(r"([{}\[\]*?\\])", r"\\\1", uri) for uri in uris]
    files = spark.read.format("binaryFile").load(plain).select("path", "content")
    return files.mapInArrow(read, schema)


def _captures(spark: SparkSession, path: str, name_glob: str | None, recursive: bool) -> list[str]:
    """The URIs of the files that are wanted, if the JVM can take each."""
    most = _most_bytes(spark)
    wanted = []
    for uri, length in sorted(_listed(spark, path, name_glob, recursive)):
        if length > most:
            raise ValueError(
                f"{uri}: {length} bytes; expected at most {most}, a {_HEAP_OF_FILE}th of the JVM's heap for "
                "each core: a file goes through it whole (spark.driver.memory, spark.executor.memory)"
            )
        wanted.append(uri)
    return wanted


def _listed(
    spark: SparkSession, path: str, name_glob: str | None, recursive: bool
) -> Iterator[tuple[str, int]]:
    """URI and length of the file at a path, or of the captures below it; as Hadoop's shell finds them."""
    context = spark.sparkContext
    assert context._jvm is not None
    try:
        path_of = context._jvm.org.apache.hadoop.fs.Path
        at = path_of(path)
        system = at.getFileSystem(context._jsc.hadoopConfiguration())
        # A name may hold what looks like a glob.
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
                    if is_wanted(name, name_glob) and not is_index(name, names.__contains__):
                        files.append(status)
                elif status.isDirectory() and recursive and not is_hidden(name):
                    folders.append(status.getPath())
        yield from ((status.getPath().toString(), int(status.getLen())) for status in files)
    except Py4JJavaError as error:
        raise OSError(f"{path}: {error.java_exception.getMessage()}") from error


def _most_bytes(spark: SparkSession) -> int:
    """The largest file that a task can take."""
    context = spark.sparkContext
    assert context._jvm is not None
    local = re.fullmatch(r"local(?:\[([0-9*]+)(?:,.*)?\])?", context.master)
    if local is not None:
        heap = int(context._jvm.java.lang.Runtime.getRuntime().maxMemory())
        cores = (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
    else:
        heap = int(context._jsc.sc().executorMemory()) * 1024 * 1024
        # Elsewhere an executor without the setting takes all cores that its worker has.
        usual = "1" if context.master.startswith(("yarn", "k8s")) else None
        text = context.getConf().get("spark.executor.cores", usual)
        if text is None:
            raise ValueError("expected spark.executor.cores, by which to tell how large a file may be")
        cores = int(text)
    # An array of Java's, and a value of Spark's, has 2 GB at most.
    return min(heap // (_HEAP_OF_FILE * cores), 2**31 - 16)


def _identities(run: Path) -> dict[str, CaptureIdentity]:
    """The captures of a run by the names of their files."""
    return {Path(path).name: identity for path, identity in capture_paths(RunLayout(run)).items()}


def _rows(
    uri: str, content: pa.Buffer, view: View, names: Mapping[str, CaptureIdentity]
) -> Iterator[pa.RecordBatch]:
    """The rows of one file, by way of a file of this machine: what reads captures reads files."""
    name = PurePosixPath(uri).name
    with tempfile.TemporaryDirectory(prefix="cbcb-hadoop-") as folder:
        local = Path(folder) / name
        local.write_bytes(content)
        own = replace(view, captures={str(local): names[name]} if name in names else {})
        batches = own.read(FilePart(str(local), size=len(content)))
        while True:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                try:
                    batch = next(batches, None)
                except PcapError as error:
                    raise PcapError(str(error).replace(str(local), uri)) from error
            for warning in told:
                warnings.warn(str(warning.message).replace(str(local), uri), stacklevel=2)
            if batch is None:
                return
            yield _renamed(batch, str(local), uri)


def _renamed(batch: pa.RecordBatch, local: str, uri: str) -> pa.RecordBatch:
    """The URI in place of the path, in columns `file` and `error`."""
    for name in {"file", "error"} & set(batch.schema.names):
        at = batch.schema.get_field_index(name)
        texts = [None if text is None else text.replace(local, uri) for text in batch.column(at).to_pylist()]
        batch = batch.set_column(at, name, pa.array(texts, pa.string()))
    return batch
