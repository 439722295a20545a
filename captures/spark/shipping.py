"""Makes this project's packages importable for the workers of a Spark session."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

from captures.spark.folder import process_folder
from captures.spark.internals import classic_context, shipped_archives

#: Packages that the workers need: sweeps run simulations there.
_PACKAGES = ("captures", "router", "testbed", "topos")
_ARCHIVE = "cbcb.zip"
#: Endings of the files that the packages read at work: code, shipped experiments, texts of SQL.
_SUFFIXES = (".py", ".toml", ".sql")
_SOURCE_ROOT = Path(__file__).resolve().parents[2]
#: Identifiers of the sessions of Spark Connect whose servers have the archive.
_served: set[str] = set()


def ship(spark: SparkSession) -> None:
    """Makes the packages importable for the workers of a session.

    Does nothing if it was done before.

    Workers on this machine import them from their place, with the machine code that numba has compiled;
    workers of a cluster, and the server of Spark Connect, get an archive.
    """
    context = classic_context(spark)
    if context is None:
        if spark.session_id not in _served:
            with tempfile.TemporaryDirectory(prefix="ship-") as folder:
                spark.addArtifacts(str(write_archive(Path(folder))), pyfile=True)
            _served.add(spark.session_id)
    elif context.master.startswith("local"):
        # Spark appends the path that the variable had before.
        context.environment["PYTHONPATH"] = str(_SOURCE_ROOT)
    elif not any(Path(name).name == _ARCHIVE for name in shipped_archives(context)):
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
