"""The folder for all temporary files of Spark in one process, by which its processes can be found.

The owner holds a lock on the folder until it ends, in whatever way: a folder whose lock is free belongs to a
dead process. The command lines of the processes that Spark starts name paths in the folder.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import select
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

#: The setting of Spark that names the folder in the command lines of its processes.
LOCAL_FOLDER = "spark.local.dir"
#: Not `cbcb-spark-<process id>`, whose owner, an older version of this code, locks a file in it.
_PREFIX = "cbcb-spark-jvm-"
#: A link to a folder is no folder.
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KILL_TIMEOUT_S = 10.0


class SparkFolder:
    """A folder `cbcb-spark-jvm-<process id>-<letters>` for the temporary files of this process."""

    def __init__(self) -> None:
        # Renamed when it is locked: without the lock, it would count as the folder of a dead process.
        made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}{os.getpid()}-"))
        self._lock = os.open(made, _OPEN)
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
    import psutil  # the formats of Spark do without it

    folders = processes = 0
    for path in Path(tempfile.gettempdir()).iterdir():
        name = re.fullmatch(rf"(\.?){_PREFIX}([0-9]{{1,9}})-.+", path.name, re.DOTALL)
        if name is None or (name[1] and psutil.pid_exists(int(name[2]))):
            continue  # not Spark's, or its owner is creating it, and may not hold the lock yet
        try:
            lock = os.open(path, _OPEN)
        except OSError:
            continue  # its owner has removed it, or it is no folder
        try:
            if os.fstat(lock).st_uid != os.geteuid():
                continue
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            processes += _end_processes(path)
            # Nothing of Spark is deeper than the recursion of Python.
            with suppress(RecursionError):
                shutil.rmtree(path, ignore_errors=True)
                folders += 1
        except BlockingIOError:
            continue  # its owner lives
        finally:
            os.close(lock)
    return folders, processes


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
