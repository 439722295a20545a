"""Makes this project's packages importable for the workers of a Spark session."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import SparkSession

from captures.spark.folder import process_folder
from captures.spark.internals import classic_context, shipped_archives

#: Packages that the workers need.
_SHIPPED = ("captures", "router", "topos")
_ARCHIVE = "cbcb.zip"
_SUFFIXES = (".py", ".toml")
_SOURCE_ROOT = Path(__file__).resolve().parents[2]


def ship(spark: SparkSession) -> None:
    """Makes the packages importable for the workers of a session.

    Does nothing if it was done before.

    Workers on this machine import them from their place, with the machine code that numba has compiled;
    workers of a cluster get an archive.
    """
    context = classic_context(spark)
    if context is None:
        _ship_to_server(spark)
        return
    if context.master.startswith("local"):
        # Spark appends the path that the variable had before.
        context.environment["PYTHONPATH"] = str(_SOURCE_ROOT)
        return
    if any(Path(name).name == _ARCHIVE for name in shipped_archives(context)):
        return
    ship_packages(spark, _SHIPPED, _ARCHIVE)


def _ship_to_server(spark: SparkSession) -> None:
    """Sends the packages to the server of Spark Connect, for this session."""
    if _ARCHIVE not in _sent.setdefault(spark.session_id, set()):
        with tempfile.TemporaryDirectory(prefix="ship-") as folder:
            spark.addArtifacts(str(_archive(Path(folder) / _ARCHIVE, _SHIPPED)), pyfile=True)
        _sent[spark.session_id].add(_ARCHIVE)


#: Identifier of a session of Spark Connect -> archives that its server has.
_sent: dict[str, set[str]] = {}


def ship_packages(spark: SparkSession, packages: Iterable[str], name: str) -> None:
    """Makes packages of this project importable for the workers of a session, beside those of `ship`.

    Args:
        name: file name of the archive, different for each call.
    """
    context = spark.sparkContext
    if not context.master.startswith("local"):
        folder = Path(tempfile.mkdtemp(prefix="ship-", dir=process_folder().path))
        context.addPyFile(str(_archive(folder / name, packages)))


def _archive(path: Path, packages: Iterable[str]) -> Path:
    """Writes packages as a zip file that Python can import from, with the experiments that they ship."""
    with zipfile.ZipFile(path, "w") as archive:
        for package in packages:
            for file in sorted((_SOURCE_ROOT / package).rglob("*")):
                relative = file.relative_to(_SOURCE_ROOT)
                if file.suffix in _SUFFIXES and relative.parts[:2] != ("captures", "runs"):
                    archive.write(file, str(relative))
    return path
