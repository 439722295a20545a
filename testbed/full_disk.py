"""File systems that are full: an error that names them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.errors import MachineError, RunError

#: A file system or the user's share of it is full.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
#: Bytes: with fewer left, a file system counts as full.
_NEXT_TO_NOTHING = 65_536


@contextmanager
def naming_a_full_disk(folder: Path) -> Iterator[None]:
    """Says so of what fails inside because the file system of `folder` is full.

    An error of writing has no file name, and a process that could not write its log dies without a word.

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
    """Whether a file system takes next to nothing more, or no further file."""
    found = os.statvfs(folder)
    # Not zero: what fills a disk is often a record that no longer fits.
    return found.f_bavail * found.f_frsize < _NEXT_TO_NOTHING or (found.f_files > 0 and found.f_favail == 0)
