"""Compiling with Numba, once for all processes: where the machine code is kept, and when it is made anew."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import pkgutil
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numba
from numba.core import config

_Function = TypeVar("_Function", bound=Callable[..., Any])
# Numba infers the types in compiled functions, and checks them; annotations name them for the reader.
#: A number in a compiled function: int64.
I64: TypeAlias = Any
#: The address, as int64, of an array or of a row (`router.native.memory`).
Address: TypeAlias = Any
#: A NumPy array.
Array: TypeAlias = Any
#: A truth value.
Flag: TypeAlias = Any
#: A double.
Real: TypeAlias = Any
#: Several values.
Tuple: TypeAlias = Any
#: Modules on which all machine code depends.
_ALWAYS = ("router.native",)
#: Directories of other versions that are left alone beside the one in use.
_KEPT = 4
#: Numba's setting is the process's, and captures are read in several threads.
_DECLARING = threading.Lock()


class Compiler:
    """Compiles the functions of some modules into machine code that lasts as long as their sources do.

    Numba's own check sees changes of a function's file alone, and not of the functions and numbers that were
    compiled into it from other files: each state of all these sources has a directory of its own.

    Attributes:
        sources: the names of the modules.
    """

    def __init__(self, name: str, *sources: str) -> None:
        """Sets up what is compiled later.

        Args:
            name: of the directories, beside their versions.
            sources: the modules on which the machine code depends; packages mean all modules right in them.

        Raises:
            ModuleNotFoundError: one of these is not there.
        """
        self._name = name
        self.sources = [module for source in (*_ALWAYS, *sources) for module in _modules(source)]

    def kernel(self, function: _Function) -> _Function:
        """Compiles at the first call, or loads what an earlier process compiled; runs without the GIL.

        Nothing is raised for a division by zero.
        """
        with _DECLARING:
            before = config.CACHE_DIR
            # Numba asks for the directory here.
            config.CACHE_DIR = str(self.code_directory)
            try:
                self._give_file(function)
                compiled: _Function = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
            finally:
                config.CACHE_DIR = before
        return compiled

    @staticmethod
    def callee(function: _Function) -> _Function:
        """Compiles a function that kernels call, as part of their machine code; LLVM may inline it."""
        compiled: _Function = numba.njit(nogil=True, error_model="numpy")(function)
        return compiled

    @staticmethod
    def inlined(function: _Function) -> _Function:
        """Puts a function into those that call it before anything is compiled.

        For small ones with no loops, in few places: a call with its checks takes longer, but the time to
        compile grows with the size of what comes of it.
        """
        compiled: _Function = numba.njit(inline="always")(function)
        return compiled

    @cached_property
    def code_directory(self) -> Path:
        """Where this version's machine code is: a directory that is ours and can be written.

        The first that can be used of: the Python environment, the user's cache, a directory for this user
        among temporary files. Machine code of other versions is removed but for the last few.
        """
        for room in _rooms():
            directory = room / f"{self._name}-{self.version}"
            try:
                # Each for itself: the mode is only the last one's.
                room.parent.mkdir(parents=True, exist_ok=True)
                room.mkdir(exist_ok=True, mode=0o700)
                if not _is_ours(room):
                    continue
                directory.mkdir(exist_ok=True, mode=0o700)
                if os.access(directory, os.W_OK):
                    self._remove_others(room, directory)
                    return directory
            except OSError:
                continue
        # Compiled by every process anew, but it serves.
        directory = Path(tempfile.mkdtemp(prefix="cbcb-numba-"))
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        return directory

    @property
    def has_code(self) -> bool:
        """Whether there is machine code of this version; else whoever calls a kernel first waits."""
        return any(self.code_directory.glob("*/*.nbi"))

    @cached_property
    def version(self) -> str:
        """Names all that the machine code depends on; Numba itself minds the processor."""
        digest = hashlib.sha256(f"{sys.version} {numba.__version__}".encode())
        for name in self.sources:
            digest.update(name.encode() + b"\0" + _source(name))
        return digest.hexdigest()[:16]

    def _give_file(self, function: Callable[..., Any]) -> None:
        """Lets a function of a module in a zip file, as Spark's workers have them, seem to be of a copy.

        Numba keeps machine code by the place of its source; that of a zip file is another in every session.
        """
        code = function.__code__
        if Path(code.co_filename).exists():
            return
        copy = self.code_directory / f"{function.__module__}.py"
        if not copy.exists():
            whole = copy.with_suffix(f".{os.getpid()}")
            whole.write_bytes(_source(function.__module__))
            whole.replace(copy)
        function.__code__ = code.replace(co_filename=str(copy))

    def _remove_others(self, room: Path, current: Path) -> None:
        os.utime(current)
        others = []
        for path in room.glob(f"{self._name}-*"):
            # Another process may be removing it just now.
            with contextlib.suppress(FileNotFoundError):
                if path != current:
                    others.append((path.stat().st_mtime, path))
        for _, directory in sorted(others)[:-_KEPT]:
            shutil.rmtree(directory, ignore_errors=True)


def _modules(source: str) -> list[str]:
    """The module of this name, or those of the package: without subpackages, which may be other code."""
    spec = find_spec(source)
    if spec is None:
        raise ModuleNotFoundError(f"no module {source}", name=source)
    if spec.submodule_search_locations is None:
        return [source]
    found = pkgutil.iter_modules(spec.submodule_search_locations)
    return sorted(f"{source}.{module.name}" for module in found if not module.ispkg)


def _source(module: str) -> bytes:
    package, _, name = module.rpartition(".")
    source = pkgutil.get_data(package, f"{name}.py")
    assert source is not None, f"{module} has no source"
    return source


def _rooms() -> Iterator[Path]:
    yield Path(sys.prefix) / "cache" / "cbcb-numba"
    with contextlib.suppress(RuntimeError):
        yield (
            Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()).absolute() / "cbcb-numba"
        )
    yield Path(tempfile.gettempdir()) / f"cbcb-numba-{os.geteuid()}"


def _is_ours(room: Path) -> bool:
    """Whether nobody else can put machine code there."""
    status = room.lstat()
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )
