"""Errors that the command line reports as one line and an exit status."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Errors of a full file system, an exhausted quota, or a limit on the size of files (`ulimit -f`).
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: A file system with fewer free bytes counts as full.
_NEXT_TO_NOTHING = 65_536


class TestbedError(Exception):
    """An error that the user can correct.

    `status` is the exit status (2: bad input, 3: machine).
    """

    __test__ = False  # pytest: not a test class
    status = 1


class InputError(TestbedError):
    """Bad input: an argument, an experiment file, a run folder."""

    status = 2


class MachineError(TestbedError):
    """The machine lacks a requirement; the message names it, and the command that installs it."""

    status = 3


class RunError(TestbedError):
    """A run could not continue: a part of it died or was not ready in time."""

    status = 1


class UnmendedError(RunError):
    """A take-down has failed in a way that a repetition does not mend."""


class PartLostError(RunError):
    """A part of a run died while the workload was played.

    Attributes:
        run_dir: the run folder, which can be accounted for.
    """

    def __init__(self, message: str, run_dir: Path) -> None:
        super().__init__(message)
        self.run_dir = run_dir


class BringUpError(RunError):
    """The network was not brought up; nothing was sent."""

    status = 5


class BringUpInterrupted(KeyboardInterrupt):
    """The user ended a run while its network was brought up; the message names the step.

    `status` is the exit status.
    """

    status = BringUpError.status


#: Errors of `router` and `captures` that end a command -> its exit status. The table has names, so that no
#: module is imported: an interpreter without the packages fails in the command, which reports them.
LIBRARY_ERRORS = {
    "captures.rundir.files:RunFolderError": InputError.status,
    "captures.tables.query:QueryError": InputError.status,
    "router.privacy:KeyFileError": InputError.status,
    "router.recording.file:RecordingError": InputError.status,
    "router.registry:PackageError": InputError.status,
    "captures.spark.session:SessionError": MachineError.status,
    "router.runtime.client:ClientError": RunError.status,
}


def exit_status(error: Exception) -> int | None:
    """Returns the exit status of a command that ends with an error; None: this code is at fault."""
    if isinstance(error, TestbedError):
        return error.status
    names = (f"{each.__module__}:{each.__name__}" for each in type(error).__mro__)
    return next((LIBRARY_ERRORS[name] for name in names if name in LIBRARY_ERRORS), None)


@contextmanager
def reading(name: str = "") -> Iterator[None]:
    """Raises InputError, with the name of what is read, in place of a ValueError inside the block."""
    try:
        yield
    except ValueError as error:
        raise InputError(f"{name}: {error}" if name else str(error)) from error


@contextmanager
def naming_the_run(run_dir: Path) -> Iterator[None]:
    """Names, when a run or its accounting is interrupted, the command that accounts for the run."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        from captures.rundir import accounting

        text = f"interrupted; `{accounting(run_dir)}` accounts for what there is of the run"
        raise KeyboardInterrupt(text) from interrupt


@contextmanager
def naming_a_full_disk(folder: Path) -> Iterator[None]:
    """Replaces an error inside the block by one that names the full file system of `folder`, or of a folder
    in it.

    An error of writing has no file name, and a process that cannot write its log ends without a message.

    Raises:
        MachineError: in place of a RunError, or of an OSError of a full disk.
    """
    try:
        yield
    except RunError as error:
        if _is_full(folder):
            raise MachineError(f"{folder}: {os.strerror(errno.ENOSPC)} ({error})") from error
        raise
    except OSError as error:
        if error.errno in FULL:
            folders = (folder, *(path for path in sorted(folder.iterdir()) if path.is_dir()))
            full = next(filter(_is_full, folders), None)
            # What has filled it may be removed by now.
            if full is not None or error.filename is None:
                raise MachineError(f"{full or folder}: {os.strerror(error.errno)}") from error
        raise


def _is_full(folder: Path) -> bool:
    """Returns whether a file system has almost no free bytes, or no free inode."""
    found = os.statvfs(folder)
    # Not zero: a record that does not fit leaves a few bytes free.
    return found.f_bavail * found.f_frsize < _NEXT_TO_NOTHING or (found.f_files > 0 and found.f_favail == 0)
