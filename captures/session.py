"""Spark sessions for the accounting: quiet, on loopback, the same code on one machine and on a cluster."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from captures import class_archive

#: Packages that the workers need.
_SHIPPED = ("captures", "router")
#: A run's job is short: most of its time goes into compiling and planning, not into rows. The first compiler
#: alone takes about half the processor time of both. With many rows, the second makes them twice as fast.
_JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_JVM_OPTIONS_LARGE = "-XX:+UseSerialGC"
_ARCHIVE = "cbcb.zip"
#: Sockets have names of 107 bytes at most; Spark adds `/.<UUID>.sock` to their folder.
_MOST_SOCKET_FOLDER = 107 - 43
_SOURCE_ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def spark_session(
    master: str = "local[2]", log: Path | None = None, *, large: bool = False
) -> Iterator[SparkSession]:
    """A session, stopped with all its temporary files on the way out.

    Args:
        master: Spark's master URL. With `local[...]` the driver binds to 127.0.0.1; elsewhere Spark's own
            settings hold.
        log: file that takes what Spark and its workers write to stderr (None: this process's stderr).
        large: there are millions of rows; the JVM of a first session in this process is made for that.
    """
    work = Path(tempfile.mkdtemp(prefix="cbcb-spark-"))
    settings: dict[str, str] = {}
    try:
        # A worker must run the interpreter that has pyarrow and numpy, which need not be the first in PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings |= {
            "spark.master": master,
            "spark.app.name": "cbcb accounting",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(work / "warehouse"),
            "spark.local.dir": str(work),
        }
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings |= _local_settings(work, large)
        with _stderr_to(log):
            session = SparkSession.builder.config(map=settings).getOrCreate()
        try:
            ship(session)
            yield session
        finally:
            session.stop()
    finally:
        _forget(settings)
        shutil.rmtree(work, ignore_errors=True)


def _local_settings(work: Path, large: bool) -> dict[str, str]:
    # The archive of classes saves a second, and takes a quarter of a minute to make: not for what is rare.
    options = _JVM_OPTIONS_LARGE if large else class_archive.options(_JVM_OPTIONS)
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": options,
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.daemon.module": "captures.worker_daemon",
    }
    if len(os.fsencode(work)) <= _MOST_SOCKET_FOLDER:
        # Over TCP, each task waits for delayed acknowledgements of loopback. The folder is ours alone.
        settings |= {
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.python.unix.domain.socket.dir": str(work),
        }
    return settings


def _forget(settings: Mapping[str, str]) -> None:
    """Takes settings back from the JVM, if it was started with them: a later session would have them too."""
    jvm = SparkContext._jvm
    if jvm is None:
        return
    system = jvm.java.lang.System
    with suppress(Py4JError, OSError):
        for name, value in settings.items():
            if system.getProperty(name) == value:
                system.clearProperty(name)


def ship(spark: SparkSession) -> None:
    """Makes the packages importable for the workers of a session; once.

    Workers on this machine find them where they are, with what numba has compiled; others get a copy.
    """
    context = spark.sparkContext
    if context.master.startswith("local"):
        # What is already there stays: Spark puts it behind this.
        context.environment["PYTHONPATH"] = str(_SOURCE_ROOT)
        return
    if any(Path(name).name == _ARCHIVE for name in context._python_includes):
        return
    folder = Path(tempfile.mkdtemp(prefix="cbcb-ship-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    context.addPyFile(str(_archive(folder)))


def _archive(folder: Path) -> Path:
    """The shipped packages as a zip file that Python can import from."""
    path = folder / _ARCHIVE
    with zipfile.ZipFile(path, "w") as archive:
        for package in _SHIPPED:
            for module in sorted((_SOURCE_ROOT / package).rglob("*.py")):
                relative = module.relative_to(_SOURCE_ROOT)
                if "runs" not in relative.parts:
                    archive.write(module, str(relative))
    return path


@contextmanager
def _stderr_to(log: Path | None) -> Iterator[None]:
    """Points this process's stderr at `log` while the JVM starts, which keeps what it inherits."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
