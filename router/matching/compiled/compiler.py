"""Compiling with Numba, once for all runs: where the machine code is kept, and when it is made anew."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config

from router.predicates import model
from router.wire import tlv

_Function = TypeVar("_Function", bound=Callable[..., Any])
#: A number (int64) or an array in a compiled function, whose types Numba infers and checks.
Native = Any
#: Modules of which numbers stand in the machine code.
_CONSTANTS = (model, tlv)
#: Directories of other versions that are left alone beside the one in use.
_KEPT = 4


def kernel(function: _Function) -> _Function:
    """Compiles at the first call, or loads what an earlier process compiled; runs without the GIL."""
    before = config.CACHE_DIR
    # Numba asks for the directory here. Its own check sees changes of the function's file alone, and not
    # of the functions that were compiled into it: a directory for each state of the sources does.
    config.CACHE_DIR = str(code_directory())
    try:
        compiled: _Function = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    finally:
        config.CACHE_DIR = before
    return compiled


def inlined(function: _Function) -> _Function:
    """Compiles a function that kernels call, as part of their machine code."""
    compiled: _Function = numba.njit(nogil=True, error_model="numpy")(function)
    return compiled


@cache
def code_directory() -> Path:
    """Where this version's machine code is: a directory that is ours and can be written, or only read.

    The first that can be used of: the Python environment, the user's cache, a directory for this user among
    temporary files. Machine code of other versions is removed but for the last few.
    """
    version = _version()
    for room in _rooms():
        directory = room / version
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            if _ours(room) and os.access(directory, os.W_OK):
                _remove_others(room, directory)
                return directory
        except OSError:
            continue
    # Compiled by every process anew, but it serves.
    directory = Path(tempfile.mkdtemp(prefix="cbcb-numba-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _rooms() -> Iterator[Path]:
    yield Path(sys.prefix) / "cache" / "cbcb-numba"
    with contextlib.suppress(RuntimeError):
        yield (
            Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()).absolute() / "cbcb-numba"
        )
    yield Path(tempfile.gettempdir()) / f"cbcb-numba-{os.geteuid()}"


def _ours(room: Path) -> bool:
    """Whether nobody else can put machine code there."""
    status = room.lstat()
    return (
        stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & stat.S_IWOTH
    )


def _version() -> str:
    """Names all that the machine code depends on; Numba itself minds the processor."""
    digest = hashlib.sha256(f"{sys.version} {numba.__version__}".encode())
    sources = [*sorted(Path(__file__).parent.glob("*.py")), *(Path(str(m.__file__)) for m in _CONSTANTS)]
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _remove_others(room: Path, current: Path) -> None:
    os.utime(current)
    others = sorted((p for p in room.iterdir() if p != current), key=lambda p: p.stat().st_mtime)
    for directory in others[:-_KEPT]:
        shutil.rmtree(directory, ignore_errors=True)
