"""Spark sessions for the accounting: quiet, on loopback; the same on one machine and on a cluster.

Workers get the code of this project (`ship`).
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from captures.spark import internals
from captures.spark.folder import LOCAL_FOLDER, SparkFolder, process_folder

#: A session of Spark, for those that do not import Spark.
Session = SparkSession

#: The job of a run is short: compiling and planning take most of its time, rows little. The JVM's first
#: compiler alone takes about half the processor time of both compilers. On many rows, code of the second
#: compiler is twice as fast.
#: Its memory for code, 48 MB by default, overflows in the third accounting of a session.
_JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
_JVM_OPTIONS_LARGE = "-XX:+UseSerialGC"
#: Classes of Spark as the JVM has them in memory (class data sharing), from which it starts in half the
#: processor time. A JVM of another version takes no notice of the file.
CLASSES = Path(sys.prefix) / "spark.jsa"
_NO_WARNING = "-Xlog:cds=off -Xlog:cds+dynamic=off"
USE_CLASSES = f'"-XX:SharedArchiveFile={CLASSES}" {_NO_WARNING}'
#: Names of sockets have at most 107 bytes; Spark adds `/.<UUID>.sock` to the folder.
_MOST_SOCKET_FOLDER = 107 - 43
#: Environment variable with options of the JVM, which precede those of Spark's settings.
_FIRST_OPTIONS = "SPARK_SUBMIT_OPTS"
#: Environment variable: the interpreter of workers.
_PYTHON = "PYSPARK_PYTHON"
#: Environment variables with settings of a Spark, or Hadoop, that the user has installed: for sessions on a
#: cluster. A local session is that of the installed PySpark.
_OF_THE_USER = (
    *("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_LOCAL_HOSTNAME"),
    *("PYSPARK_SUBMIT_ARGS", _PYTHON, "PYSPARK_DRIVER_PYTHON", "HADOOP_CONF_DIR", "YARN_CONF_DIR"),
)
#: Environment variable: Python does not import from the working folder, as with `-P` (`router.system`).
_SAFE_PATH = "PYTHONSAFEPATH"
#: Lines in which Java says that it gets too little memory.
_NO_MEMORY = re.compile(
    r"insufficient memory|could not (reserve|allocate)|cannot allocate memory|OutOfMemoryError", re.IGNORECASE
)
#: The line of a traceback of Python with the error.
_PYTHON_ERROR = re.compile(r"(\w+\.)*\w*(Error|Exception): ")
#: Seconds between two searches for processes to end.
_SEARCH_EVERY_S = 0.05
#: Packages that the workers need: sweeps run simulations there.
_PACKAGES = ("captures", "router", "testbed", "topos")
_ARCHIVE = "cbcb.zip"
#: Endings of the files that the packages read at work: code, shipped experiments, texts of SQL.
_SUFFIXES = (".py", ".toml", ".sql")
_SOURCE_ROOT = Path(__file__).resolve().parents[2]
#: Identifiers of the sessions of Spark Connect whose servers have the archive.
_served: set[str] = set()


class SessionError(RuntimeError):
    """Spark did not start, or its JVM ended.

    The message has the first line of Spark's, and names the log.
    """


@contextmanager
def spark_session(
    master: str = "local[2]",
    log: Path | None = None,
    *,
    large: bool = False,
    more: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A session.

    Leaving the context stops it and removes all its temporary files.

    Ctrl-C, while the session starts and later, kills the JVM: nothing waits for its jobs. So does a context
    that has stopped by itself: the next session starts another JVM.

    While the JVM starts, `tempfile.tempdir` of the whole process is a folder that is removed when the process
    ends: PySpark takes no other. Temporary files that other threads make meanwhile are in it.

    Args:
        master: Spark's master URL. With `local[...]` the driver binds to 127.0.0.1; otherwise Spark's own
            settings apply.
        log: file for the output of Spark and its workers (None: stdout and stderr of this process).
        large: whether the JVM is started for millions of rows. Sessions after the first in a process share
            its JVM.
        more: further settings of Spark.

    Raises:
        SessionError: Spark does not start, or ends by itself.
    """
    folder = process_folder()
    work = Path(tempfile.mkdtemp(prefix="session-", dir=folder.path))
    settings: dict[str, str] = {}
    try:
        settings |= {
            "spark.master": master,
            "spark.app.name": "cbcb accounting",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.sql.session.timeZone": "UTC",
            # The default is a type of nanoseconds that Parquet has given up.
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
            "spark.sql.warehouse.dir": str(work / "warehouse"),
            # For the workers of a cluster.
            f"spark.executorEnv.{_SAFE_PATH}": "1",
            LOCAL_FOLDER: str(work),
            **(more or {}),
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
        except (Py4JError, PySparkException, OSError, EOFError) as error:
            if internals.context_runs(session.sparkContext):
                raise
            raise SessionError(f"Spark on {master} ended before it was done{_see(log)}") from error
        finally:
            if not internals.context_runs(session.sparkContext):
                _end_jvm(folder)  # it ends by itself, perhaps after the next session has taken it
            _stop(session)
    finally:
        # A later session would take them from the JVM.
        with suppress(Py4JError, OSError):
            internals.clear_properties(settings)
        shutil.rmtree(work, ignore_errors=True)


def archive_classes() -> None:
    """Writes `CLASSES`, when Python's environment is made; raises SessionError, or OSError."""
    CLASSES.unlink(missing_ok=True)
    new = CLASSES.with_suffix(".new")
    os.environ[_FIRST_OPTIONS] = f'"-XX:ArchiveClassesAtExit={new}" {_NO_WARNING}'
    with spark_session() as spark:
        spark.range(1).groupBy("id").count().collect()
    internals.end_jvm()
    new.replace(CLASSES)


def _started(settings: Mapping[str, str], folder: SparkFolder, log: Path | None) -> SparkSession:
    # In a thread of its own, which no signal interrupts: PySpark, interrupted while it waits for the JVM,
    # loses the reference to the JVM, which then never ends.
    before = 0 if log is None or not log.exists() else log.stat().st_size
    with (
        _output_to(log),
        _environment_of_jvm(folder.path, settings),
        ThreadPoolExecutor(max_workers=1) as pool,
    ):
        starting = pool.submit(SparkSession.builder.config(map=dict(settings)).getOrCreate)
        try:
            session = starting.result()
            _expect_end_of_jvm()
            return session
        except (PySparkException, Py4JError, OSError) as error:
            why = _lack_of_memory(error, log, before) or _reason(error)
            said = f"Spark on {settings['spark.master']} does not start: {why}{_see(log)}"
            _end_jvm(folder)
            raise SessionError(said) from error
        except BaseException:
            while not starting.done():
                folder.end_processes()
                wait([starting], _SEARCH_EVERY_S)
            _end_jvm(folder)
            raise


@contextmanager
def _environment_of_jvm(folder: Path, settings: Mapping[str, str]) -> Iterator[None]:
    """Within the context, a JVM that starts keeps its own temporary files in the folder, too, and no Python
    that the JVM starts imports from the working folder; a local one takes no settings of the user's.

    PySpark makes a folder for the answer of the JVM and removes it when the JVM has started: a process that
    is killed before leaves it.
    """
    of_python, tempfile.tempdir = tempfile.tempdir, str(folder)
    names = (_FIRST_OPTIONS, _SAFE_PATH, *_OF_THE_USER)
    before = {name: os.environ.get(name) for name in names}
    own = f'"-Djava.io.tmpdir={folder}" "-XX:ErrorFile={folder}/hs_err_pid%p.log"'
    own += f" {USE_CLASSES}" if CLASSES.exists() else ""
    changed: dict[str, str | None] = {_SAFE_PATH: "1"}
    changed[_FIRST_OPTIONS] = f"{before[_FIRST_OPTIONS] or ''} {own}".strip()
    if settings["spark.master"].startswith("local"):
        changed |= dict.fromkeys(_OF_THE_USER)
    # Workers run this interpreter: the first in PATH need not have pyarrow and numpy.
    changed[_PYTHON] = changed.get(_PYTHON, before[_PYTHON]) or sys.executable
    try:
        _set_environment(changed)
        yield
    finally:
        tempfile.tempdir = of_python
        _set_environment(before)


def _set_environment(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _end_jvm(folder: SparkFolder) -> None:
    """Kills the JVM if a session of this process has started it; the next session starts another."""
    _expect_end_of_jvm()
    folder.end_processes()
    if not internals.jvm_runs():
        internals.forget_jvm()


def _expect_end_of_jvm() -> None:
    """Keeps PySpark and py4j from printing tracebacks when the JVM ends.

    They would repeat the error that the session raises. A signal to the process group may reach the JVM
    first.
    """
    logging.getLogger().addFilter(_is_not_of_py4j)
    internals.silence_accumulator_server()


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    # py4j logs some errors by the root logger: the path of the module identifies them.
    return Path(record.pathname).parent.name != "py4j"


def _stop(session: SparkSession) -> None:
    with warnings.catch_warnings():
        # Spark warns if its JVM has ended.
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            session.stop()
        except (Py4JError, OSError):
            internals.forget_session()
            internals.forget_jvm()


def _reason(error: Exception) -> str:
    """The first line of Spark's message, or the last Python error in it."""
    text = str(error)
    if isinstance(error, Py4JJavaError):
        with suppress(Py4JError, OSError):
            text = str(error.java_exception.getMessage())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # An error of Python is the last line of its traceback, before the stack of Java's.
    python = [line for line in lines if _PYTHON_ERROR.match(line)]
    return (python[-1] if python else lines[0] if lines else type(error).__name__).rstrip(".")


def failed(error: Exception, master: str, log: Path | None) -> SessionError:
    """The error of a job of Spark as an error of one line."""
    return SessionError(f"Spark on {master} failed: {_reason(error)}{_see(log)}")


def _see(log: Path | None) -> str:
    return "" if log is None else f"; {log} says more"


def _local_settings(work: Path, large: bool) -> dict[str, str]:
    settings = {
        # Any user of the machine can connect to the ports of the driver. Spark itself draws the secret, which
        # no command line shows; that of a cluster is in the cluster's own settings.
        "spark.authenticate": "true",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": _JVM_OPTIONS_LARGE if large else _JVM_OPTIONS,
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.daemon.module": "captures.spark.workers",
    }
    if len(os.fsencode(work)) <= _MOST_SOCKET_FOLDER:
        # Over TCP, each task would wait for delayed acknowledgements of loopback. Only this user may enter
        # the folder.
        settings |= {
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.python.unix.domain.socket.dir": str(work),
        }
    return settings


def _lack_of_memory(error: Exception, log: Path | None, start: int) -> str | None:
    """The refusal of memory in words, if that is why Spark has not started.

    Java prints the reason; the error of PySpark says only that Java has ended.

    Args:
        start: size of the log before Spark was started.
    """
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return f"the system refuses memory: {error.strerror}"
    if log is None:
        return None
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").splitlines()
    found = next((line for line in lines if _NO_MEMORY.search(line)), None)
    return None if found is None else f"the system refuses memory to Java: {found.strip('# .')}"


@contextmanager
def _output_to(log: Path | None) -> Iterator[None]:
    """Points stdout and stderr of this process at `log` while the JVM starts, which inherits them."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {descriptor: os.dup(descriptor) for descriptor in (1, 2)}
    try:
        with log.open("ab") as file:
            for descriptor in saved:
                os.dup2(file.fileno(), descriptor)
        yield
    finally:
        for descriptor, original in saved.items():
            os.dup2(original, descriptor)
            os.close(original)


def ship(spark: SparkSession) -> None:
    """Makes the packages importable for the workers of a session.

    Does nothing if it was done before.

    Workers on this machine import them from their place, with the machine code that numba has compiled;
    workers of a cluster, and the server of Spark Connect, get an archive.
    """
    context = internals.classic_context(spark)
    if context is None:
        if spark.session_id not in _served:
            with tempfile.TemporaryDirectory(prefix="ship-") as folder:
                spark.addArtifacts(str(write_archive(Path(folder))), pyfile=True)
            _served.add(spark.session_id)
    elif context.master.startswith("local"):
        # Spark appends the path that the variable had before.
        context.environment["PYTHONPATH"] = str(_SOURCE_ROOT)
    elif not any(Path(name).name == _ARCHIVE for name in internals.shipped_archives(context)):
        folder = tempfile.mkdtemp(prefix="ship-", dir=process_folder().path)
        context.addPyFile(str(write_archive(Path(folder))))


def write_archive(folder: Path) -> Path:
    """Writes the packages as a zip file, from which Python can import, and returns its path."""
    path = folder / _ARCHIVE
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in _PACKAGES:
            for file in sorted((_SOURCE_ROOT / package).rglob("*")):
                relative = file.relative_to(_SOURCE_ROOT)
                if file.suffix in _SUFFIXES and relative.parts[:2] != ("captures", "runs"):
                    archive.write(file, str(relative))
    return path
