"""An error that names a full file system."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.errors import MachineError, RunError

#: Errors of a full file system or an exhausted quota.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
#: A file system with fewer free bytes counts as full.
_NEXT_TO_NOTHING = 65_536


@contextmanager
def naming_a_full_disk(folder: Path) -> Iterator[None]:
    """Replaces an error inside the block by one that names the full file system of `folder`.

    An error of writing has no file name, and a process that cannot write its log ends without a message.

    Raises:
        MachineError: in place of a RunError, or of an OSError of a full disk.
    """
    try:
        yield
    except (OSError, RunError) as error:
        if (isinstance(error, RunError) or error.errno in FULL) and _is_full(folder):
            what = f" ({error})" if isinstance(error, RunError) else ""
            raise MachineError(f"{folder}: {os.strerror(errno.ENOSPC)}{what}") from error
        raise


def _is_full(folder: Path) -> bool:
    """Returns whether a file system has almost no free bytes, or no free inode."""
    found = os.statvfs(folder)
    # Not zero: a record that does not fit leaves a few bytes free.
    return found.f_bavail * found.f_frsize < _NEXT_TO_NOTHING or (found.f_files > 0 and found.f_favail == 0)
