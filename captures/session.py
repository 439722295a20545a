"""Spark sessions for the accounting: quiet, on loopback, the same code on one machine and on a cluster."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from captures.source import CbcbPcapSource

#: Packages that the workers need.
_SHIPPED = ("captures", "router")
_SOURCE_ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def spark_session(master: str = "local[2]", log: Path | None = None) -> Iterator[SparkSession]:
    """A session with the capture source registered; stopped, with all its temporary files, on the way out.

    Args:
        master: Spark's master URL. With `local[...]` the driver binds to 127.0.0.1; elsewhere Spark's own
            settings hold.
        log: file that takes what Spark and its workers write to stderr (None: this process's stderr).
    """
    work = Path(tempfile.mkdtemp(prefix="cbcb-spark-"))
    try:
        # A worker must run the interpreter that has pyarrow and numpy, which need not be the first in PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = (
            SparkSession.builder.master(master)
            .appName("cbcb accounting")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "ERROR")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", str(work / "warehouse"))
            .config("spark.local.dir", str(work))
            .config("spark.submit.pyFiles", str(_archive(work)))
        )
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            builder = (
                builder.config("spark.driver.host", "127.0.0.1")
                .config("spark.driver.bindAddress", "127.0.0.1")
                # A run's job is short: most of its time goes into compiling and planning, not into rows.
                # The first compiler alone takes about half the CPU time of both.
                .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
                .config("spark.sql.adaptive.enabled", "false")
                .config("spark.sql.shuffle.partitions", "2")
            )
        with _stderr_to(log):
            session = builder.getOrCreate()
        try:
            session.dataSource.register(CbcbPcapSource)
            yield session
        finally:
            session.stop()
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _archive(folder: Path) -> Path:
    """The shipped packages as a zip file that Python can import from."""
    path = folder / "cbcb.zip"
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
