"""Spark sessions for the accounting: quiet, on loopback, the same code on one machine and on a cluster."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from captures.spark.folder import LOCAL_FOLDER, SparkFolder

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
#: Environment variable: options of the JVM, before those of Spark's settings.
_FIRST_OPTIONS = "SPARK_SUBMIT_OPTS"
#: Between two looks for what is to be ended.
_LOOK_S = 0.05


class SessionError(RuntimeError):
    """Spark did not start, or its JVM is gone; the message says what Spark said, and where it said more."""


@contextmanager
def spark_session(
    master: str = "local[2]", log: Path | None = None, *, large: bool = False
) -> Iterator[SparkSession]:
    """A session, stopped with all its temporary files on the way out.

    Ctrl-C, while it starts and later, ends the JVM as it is: nothing waits for what it was doing.

    Args:
        master: Spark's master URL. With `local[...]` the driver binds to 127.0.0.1; elsewhere Spark's own
            settings hold.
        log: file that takes what Spark and its workers write to stderr (None: this process's stderr).
        large: there are millions of rows; the JVM of a first session in this process is made for that.

    Raises:
        SessionError: Spark does not start, or ends by itself.
    """
    folder = _folder()
    work = Path(tempfile.mkdtemp(prefix="session-", dir=folder.path))
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
            LOCAL_FOLDER: str(work),
        }
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings |= _local_settings(work, large)
        session = _started(settings, folder, log)
        try:
            ship(session)
            yield session
        except KeyboardInterrupt:
            _end_jvm(folder)
            raise
        except (Py4JError, OSError, EOFError) as error:
            if _jvm_runs():
                raise
            raise SessionError(f"Spark on {master} ended before it was done{_see(log)}") from error
        finally:
            _stop(session)
    finally:
        _forget(settings)
        shutil.rmtree(work, ignore_errors=True)


@cache
def _folder() -> SparkFolder:
    """That of this process: as its one JVM, which serves all its sessions, it stays until the end."""
    return SparkFolder()


def _started(settings: Mapping[str, str], folder: SparkFolder, log: Path | None) -> SparkSession:
    # In a thread of its own, which no signal interrupts: PySpark, interrupted while it waits for the JVM,
    # forgets it, and the JVM never ends.
    with _stderr_to(log), _temporary_files_in(folder.path), ThreadPoolExecutor(max_workers=1) as pool:
        starting = pool.submit(SparkSession.builder.config(map=dict(settings)).getOrCreate)
        try:
            return starting.result()
        except (PySparkException, Py4JError, OSError) as error:
            said = f"Spark on {settings['spark.master']} does not start: {_reason(error)}{_see(log)}"
            _end_jvm(folder)
            raise SessionError(said) from error
        except BaseException:
            while not starting.done():
                folder.end_processes()
                wait([starting], _LOOK_S)
            _end_jvm(folder)
            raise


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Has a JVM that is started meanwhile keep its own temporary files there, too."""
    before = os.environ.get(_FIRST_OPTIONS)
    os.environ[_FIRST_OPTIONS] = f'{before or ""} "-Djava.io.tmpdir={folder}"'.strip()
    try:
        yield
    finally:
        if before is None:
            del os.environ[_FIRST_OPTIONS]
        else:
            os.environ[_FIRST_OPTIONS] = before


def _end_jvm(folder: SparkFolder) -> None:
    """Ends the JVM, if it is one that a session here has started; the next session starts another."""
    # What ends with it tells who called; it need not tell the terminal as well.
    logging.getLogger().addFilter(_is_not_of_py4j)
    server = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None
    folder.end_processes()
    if not _jvm_runs():
        SparkContext._gateway = SparkContext._jvm = None


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    # It logs some errors as nobody's.
    return Path(record.pathname).parent.name != "py4j"


def _jvm_runs() -> bool:
    process = getattr(SparkContext._gateway, "proc", None)
    return process is None or process.poll() is None


def _stop(session: SparkSession) -> None:
    with warnings.catch_warnings():
        # Spark warns that its JVM is gone.
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            session.stop()
        except (Py4JError, OSError):
            SparkSession._instantiatedSession = SparkSession._activeSession = None
            SparkContext._gateway = SparkContext._jvm = None


def _reason(error: Exception) -> str:
    """The first line of what Spark says."""
    text = str(error)
    if isinstance(error, Py4JJavaError):
        with suppress(Py4JError, OSError):
            text = str(error.java_exception.getMessage())
    return text.strip().partition("\n")[0].rstrip(".")


def _see(log: Path | None) -> str:
    return "" if log is None else f"; {log} says more"


def _local_settings(work: Path, large: bool) -> dict[str, str]:
    # The archive of classes saves a second, and takes a quarter of a minute to make: not for what is rare.
    options = _JVM_OPTIONS_LARGE if large else _JVM_OPTIONS
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": options,
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.daemon.module": "captures.spark.worker_daemon",
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
    with suppress(Py4JError, OSError):
        system = jvm.java.lang.System
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
    folder = Path(tempfile.mkdtemp(prefix="ship-", dir=_folder().path))
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
