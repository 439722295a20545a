"""The folder that takes all temporary files of one process's Spark, and what is found again by it.

Its owner holds a lock on a file in it as long as it lives, however it ends: a folder whose lock is free is of
a dead process. What Spark starts is given paths in it, and so can be told by its command line.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import select
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: The setting by which a process of Spark's names the folder: an argument of its command line.
LOCAL_FOLDER = "spark.local.dir"
_PREFIX = "cbcb-spark-"
_LOCK = "lock"
_KILL_TIMEOUT_S = 10.0


class SparkFolder:
    """A folder `cbcb-spark-<process id>-<letters>` of this process, where temporary files are."""

    def __init__(self) -> None:
        # It gets its name when it is locked, so that nobody takes it for a dead one's.
        made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}{os.getpid()}-"))
        self._lock = os.open(made / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = made.rename(made.with_name(made.name[1:]))
        self._owner = os.getpid()
        atexit.register(self.remove)

    def remove(self) -> None:
        """Removes it with all that it holds; in a copy of the process that owns it, nothing."""
        if os.getpid() == self._owner:
            shutil.rmtree(self.path, ignore_errors=True)

    def end_processes(self) -> int:
        """Ends what Spark has started with this folder; says how many processes."""
        return _end_processes(self.path)


def remove_abandoned() -> tuple[int, int]:
    """Removes the folders of dead processes, and what of Spark outlived them; how many of each there were."""
    folders = processes = 0
    for path in Path(tempfile.gettempdir()).iterdir():
        if re.fullmatch(rf"\.?{_PREFIX}\d+-.+", path.name) is None or path.is_symlink() or not path.is_dir():
            continue
        with _abandoned(path) as abandoned:
            if abandoned:
                processes += _end_processes(path)
                shutil.rmtree(path, ignore_errors=True)
                folders += 1
    return folders, processes


@contextmanager
def _abandoned(path: Path) -> Iterator[bool]:
    """Whether a folder's owner is gone; if so, this process holds the lock meanwhile."""
    if path.name.startswith("."):
        # Being made: its lock may not be held yet.
        yield not _lives(path)
        return
    try:
        # Nothing that waits, if it is no plain file.
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        # Being removed, unless there is no such process.
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
    """Whether there is a process of the number in a folder's name."""
    return Path("/proc", path.name.rpartition(_PREFIX)[2].partition("-")[0]).exists()


def _end_processes(folder: Path) -> int:
    named = os.fsencode(f"{LOCAL_FOLDER}={folder}{os.sep}")
    ended = 0
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with suppress(OSError):
            # Held by a descriptor: its number may be another's by the time of the signal.
            held = os.pidfd_open(int(process.name))
            try:
                arguments = (process / "cmdline").read_bytes().split(b"\0")
                if any(argument.startswith(named) for argument in arguments):
                    signal.pidfd_send_signal(held, signal.SIGKILL)
                    # Not `select`, which takes no descriptor above 1,023.
                    ends = select.poll()
                    ends.register(held, select.POLLIN)
                    ends.poll(_KILL_TIMEOUT_S * 1000)
                    ended += 1
            finally:
                os.close(held)
    return ended
