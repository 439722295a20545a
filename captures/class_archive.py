"""An archive of the classes that Spark's JVM loads, mapped into later ones (class data sharing, JEP 350).

Loading and checking its 20,000 classes is most of what a JVM does for a small run. The first session of an
installation leaves an archive when it ends; later ones map it. Its name holds all that it depends on, so that
another Java, PySpark or set of options makes another one. The JVM compares Java and the jar files again, and
loads its classes as ever where the archive does not fit them or is damaged.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyspark
from pyspark import SparkContext

#: Environment variable: the folder of the archive, or 0 for none.
VARIABLE = "CBCB_CLASS_ARCHIVE"
_PREFIX, _SUFFIX = "spark-", ".jsa"
_DUMP_TIMEOUT_S = 120.0


def options(given: str) -> str:
    """The JVM options `given`, and those that use the archive for them, or that make it if there is none.

    Where it is made, the JVM writes it as it ends; this process waits for that at its own end (a quarter of a
    minute or so, once). Returns `given` unchanged if a JVM of this process runs already, or there can be no
    archive.
    """
    folder, java = _folder(), _java()
    if folder is None or java is None or SparkContext._gateway is not None:
        return given
    archive = folder / f"{_PREFIX}{_fingerprint(java, given)}{_SUFFIX}"
    # Otherwise an archive that does not fit is a warning on the terminal.
    quiet = f"{given} -Xlog:disable"
    if archive.is_file():
        return f"{quiet} -XX:SharedArchiveFile={archive}"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        return given
    part = archive.with_suffix(f".{os.getpid()}")
    atexit.register(_finish, part, archive)
    return f"{quiet} -XX:ArchiveClassesAtExit={part}"


def _folder() -> Path | None:
    """Where the archive is kept: with the virtual environment whose Spark it is of, else in the user's cache.

    None if there is to be no archive, or the path holds a space, which ends a JVM option.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen == "0":
        return None
    if chosen:
        folder = Path(chosen).absolute()
    elif sys.prefix != sys.base_prefix:
        folder = Path(sys.prefix) / "var" / "cache" / "cbcb-testbed"
    else:
        folder = Path.home() / ".cache" / "cbcb-testbed"
    return None if any(character.isspace() for character in str(folder)) else folder


def _finish(part: Path, archive: Path) -> None:
    """Ends the JVM, waits for its archive, and puts that in its place. Ctrl-C gives the archive up."""
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    print("keeping Spark's classes, once, so that it starts faster from now on ...", file=sys.stderr)
    try:
        gateway.shutdown()
        # Spark's gateway ends when its standard input does.
        process.stdin.close()
        if process.wait(_DUMP_TIMEOUT_S) == 0 and part.is_file():
            part.replace(archive)
    except (OSError, subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
            _remove_abandoned(archive.parent)


def _remove_abandoned(folder: Path) -> None:
    """Removes unfinished archives of processes that are gone: `spark-<fingerprint>.<process id>`."""
    for path in folder.glob(f"{_PREFIX}*"):
        number = path.suffix.removeprefix(".")
        if number.isdecimal() and not Path(f"/proc/{number}").exists():
            path.unlink(missing_ok=True)


def _java() -> Path | None:
    """The Java that Spark's start script takes."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return Path(found).resolve() if found and Path(found).is_file() else None


def _fingerprint(java: Path, given: str) -> str:
    """Of all that the archive depends on: Java, Spark's jar files and the options."""
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    files = [java, *sorted((home / "jars").glob("*.jar"))]
    stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(repr((given, stats)).encode()).hexdigest()[:16]
