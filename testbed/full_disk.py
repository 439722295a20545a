"""An error that names a full file system."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.errors import MachineError, RunError

#: Errors of a full file system, an exhausted quota, or a limit on the size of files (`ulimit -f`).
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: A file system with fewer free bytes counts as full.
_NEXT_TO_NOTHING = 65_536


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
            for full in filter(_is_full, folders):
                raise MachineError(f"{full}: {os.strerror(errno.ENOSPC)}") from error
        raise


def _is_full(folder: Path) -> bool:
    """Returns whether a file system has almost no free bytes, or no free inode."""
    found = os.statvfs(folder)
    # Not zero: a record that does not fit leaves a few bytes free.
    return found.f_bavail * found.f_frsize < _NEXT_TO_NOTHING or (found.f_files > 0 and found.f_favail == 0)
