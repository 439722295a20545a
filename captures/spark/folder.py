"""The folder for all temporary files of Spark in one process, by which its processes can be found.

The owner holds a lock on a file in the folder until it ends, in whatever way: a folder whose lock is free
belongs to a dead process. The command lines of the processes that Spark starts name paths in the folder.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import select
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

#: The setting of Spark that names the folder in the command lines of its processes.
LOCAL_FOLDER = "spark.local.dir"
_PREFIX = "cbcb-spark-"
_LOCK = "lock"
_KILL_TIMEOUT_S = 10.0


class SparkFolder:
    """A folder `cbcb-spark-<process id>-<letters>` for the temporary files of this process."""

    def __init__(self) -> None:
        # Renamed when it is locked: without the lock, it would count as the folder of a dead process.
        made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}{os.getpid()}-"))
        self._lock = os.open(made / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = made.rename(made.with_name(made.name[1:]))
        self._owner = os.getpid()
        atexit.register(self.remove)

    def remove(self) -> None:
        """Removes the folder and its contents.

        Does nothing in a fork of the process that owns it.
        """
        if os.getpid() == self._owner:
            shutil.rmtree(self.path, ignore_errors=True)

    def end_processes(self) -> int:
        """Kills the processes that Spark has started with this folder.

        Returns their number.
        """
        return _end_processes(self.path)


@cache
def process_folder() -> SparkFolder:
    """The folder of this process, which lasts as long as the JVM that serves all its sessions."""
    return SparkFolder()


def remove_abandoned() -> tuple[int, int]:
    """Removes the folders of dead processes of this user and kills their Spark processes.

    Another user's folder stays: its contents are as that user likes, and root would remove them. So does a
    folder that is too deep.

    Returns:
        The number of folders, and that of processes.
    """
    folders = processes = 0
    for path in Path(tempfile.gettempdir()).iterdir():
        if re.fullmatch(rf"\.?{_PREFIX}\d+-.+", path.name) is None or not _is_own_folder(path):
            continue
        with _abandoned(path) as abandoned:
            if abandoned:
                processes += _end_processes(path)
                # Nothing of Spark is deeper than the recursion of Python.
                with suppress(RecursionError):
                    shutil.rmtree(path, ignore_errors=True)
                    folders += 1
    return folders, processes


def _is_own_folder(path: Path) -> bool:
    """Whether the path is a folder, not a link to one, and belongs to this user."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False  # its owner has removed it
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


@contextmanager
def _abandoned(path: Path) -> Iterator[bool]:
    """Whether the owner of a folder has ended; if so, this process holds the lock within the context."""
    if path.name.startswith("."):
        # The owner is creating it, and may not hold the lock yet.
        yield not _lives(path)
        return
    try:
        # Without waiting, if the file is a pipe, say.
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        # The owner is removing it, if it lives.
        yield not _lives(path)
        return
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except OSError:
            free = False
        yield free
    finally:
        os.close(lock)


def _lives(path: Path) -> bool:
    """Whether there is a process with the id in the name of a folder."""
    import psutil  # the formats of Spark do without it

    return bool(psutil.pid_exists(int(path.name.rpartition(_PREFIX)[2].partition("-")[0])))


def _end_processes(folder: Path) -> int:
    import psutil

    prefix = f"{LOCAL_FOLDER}={folder}{os.sep}"
    ended = 0
    for process in psutil.process_iter(["cmdline"]):
        if any(argument.startswith(prefix) for argument in process.info["cmdline"] or ()):
            with suppress(OSError, psutil.Error):
                _kill(process)
                ended += 1
    return ended


def _kill(process: psutil.Process) -> None:
    """Kills a process and waits for its end.

    Not `psutil.Process.wait`: that reaps a child, and PySpark, which is waiting for the JVM to start, would
    never see the exit status.
    """
    pidfd = os.pidfd_open(process.pid)
    try:
        process.kill()
        # Not `select`, which accepts no descriptor above 1,023.
        ends = select.poll()
        ends.register(pidfd, select.POLLIN)
        ends.poll(_KILL_TIMEOUT_S * 1000)
    finally:
        os.close(pidfd)
