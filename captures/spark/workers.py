"""The Python processes in which Spark runs tasks: their garbage, and whether they reach a run folder.

Run as a program, this module is the process from which Spark forks its workers (the setting
`spark.python.daemon.module`). It imports the decoder before: once, and not in each worker, where the import
takes longer than the captures of a small run.

After each task, Spark has the worker collect its garbage, and the next task waits for the collection. The
collector visits every object; with all that the decoder imports, a collection takes longer than a small task.
"""

from __future__ import annotations

import gc
import hashlib
import os
import runpy
import socket
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from captures.rundir import RunLayout
from captures.spark.session import SessionError, failed

#: Tasks for each core that Spark knows of: workers that have just come in get some, too.
_TASKS_PER_CORE = 2


def hide_objects() -> None:
    """Excludes all objects that exist from garbage collection.

    Cycles among them stay until the process ends, as modules do in any case.
    """
    gc.collect()
    gc.freeze()


def freeze_new_imports() -> None:
    """In a task: hides all objects if modules have been imported since the last call."""
    global _modules
    if TaskContext.get() is not None and len(sys.modules) != _modules:
        _modules = len(sys.modules)
        hide_objects()


_modules = 0


def require_reach(spark: SparkSession, run: Path, writable: Path | None = None) -> None:
    """Has the workers of a session open the run folder; does nothing with workers on this machine.

    Args:
        writable: a folder into which they must be able to write; None: they only read.

    Raises:
        SessionError: a worker does not reach the folder under its path, finds other contents there, or cannot
            run Python, such as a worker without pyarrow.
    """
    context = spark.sparkContext
    if context.master.startswith("local"):
        return
    manifest = RunLayout(run.resolve()).manifest
    folder = None if writable is None else writable.resolve()
    expected = _digest(manifest)

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            problem = _problem(manifest, expected, folder)
            yield pa.RecordBatch.from_pydict({"worker": [socket.gethostname()], "problem": [problem]})

    tasks = _TASKS_PER_CORE * context.defaultParallelism
    seen = spark.range(0, tasks, 1, tasks).mapInArrow(look, "worker string, problem string")
    try:
        found = sorted((row.worker, row.problem) for row in seen.collect() if row.problem)
    except (PySparkException, Py4JJavaError) as error:
        raise failed(error, context.master, RunLayout(run).spark_log) from error
    if found:
        worker, problem = found[0]
        raise SessionError(
            f"{run}: the Spark worker on {worker} {problem}; expected the run folder under the same path on "
            f"every worker of {context.master}"
        )


def _problem(manifest: Path, expected: str, writable: Path | None) -> str:
    """Why this process does not reach the run folder, as the end of a sentence; empty: it does."""
    try:
        if _digest(manifest) != expected:
            return f"has another file {manifest}"
    except OSError as error:
        return f"cannot read {manifest} ({error.strerror})"
    if writable is not None and not os.access(writable, os.W_OK):
        return f"cannot write into {writable}"
    return ""


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    import_module("captures.frames.decoder")
    hide_objects()
    runpy.run_module("pyspark.daemon", run_name="__main__")
