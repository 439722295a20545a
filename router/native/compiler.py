"""Compilation with Numba, once for all processes: storage and invalidation of the machine code."""

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

# The working folder may have a file of settings of somebody else.
config._config_fname = os.devnull
config.reload_config()

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
#: Number of directories of other versions that are kept.
_KEPT = 4
#: Numba's setting belongs to the process, and captures are read in several threads.
_DECLARING = threading.Lock()


class Compiler:
    """Compiles the functions of some modules; the machine code is valid until one of the sources changes.

    Numba detects changes of the file of a function only, not of functions and constants that were compiled
    into it from other files. Therefore each state of all the sources has a directory of its own.

    Attributes:
        sources: the names of the modules.
    """

    def __init__(self, name: str, *sources: str) -> None:
        """Declares the sources; functions are compiled when they are first called.

        Args:
            name: the directories are named after it and the version.
            sources: the modules on which the machine code depends; a package stands for its modules, without
                subpackages.

        Raises:
            ModuleNotFoundError: a source does not exist.
        """
        self._name = name
        self.sources = [module for source in (*_ALWAYS, *sources) for module in _modules(source)]

    def kernel(self, function: _Function) -> _Function:
        """Compiles a function at its first call, or loads the machine code of an earlier process.

        The function runs without the GIL. A division by zero does not raise.
        """
        with _DECLARING:
            before = config.CACHE_DIR
            # Numba reads the setting in `njit`.
            config.CACHE_DIR = str(self.code_directory)
            try:
                self._give_file(function)
                compiled: _Function = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
            finally:
                config.CACHE_DIR = before
        return compiled

    @staticmethod
    def callee(function: _Function) -> _Function:
        """Compiles a function into the machine code of the kernels that call it; LLVM may inline it."""
        compiled: _Function = numba.njit(nogil=True, error_model="numpy")(function)
        return compiled

    @staticmethod
    def inlined(function: _Function) -> _Function:
        """Inlines a function into its callers before compilation.

        For small functions without loops, called in few places: it saves a call with its checks, but
        the time of compilation grows with the size of the result.
        """
        compiled: _Function = numba.njit(inline="always")(function)
        return compiled

    @cached_property
    def code_directory(self) -> Path:
        """The directory of this version's machine code: writable, and owned by this user alone.

        The first usable one of the Python environment, the user's cache, and a directory for this user among
        temporary files. Machine code of all but the last few other versions is removed.
        """
        for room in _rooms():
            directory = room / f"{self._name}-{self.version}"
            try:
                # Two calls: the mode applies to the last directory only.
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
        # Every process compiles again, but it works.
        directory = Path(tempfile.mkdtemp(prefix="cbcb-numba-"))
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        return directory

    @property
    def has_code(self) -> bool:
        """Whether machine code of this version exists; otherwise the first call of a kernel compiles."""
        return any(self.code_directory.glob("*/*.nbi"))

    @cached_property
    def version(self) -> str:
        """A digest of everything that the machine code depends on, except the processor (Numba adds it)."""
        digest = hashlib.sha256(f"{sys.version} {numba.__version__}".encode())
        for name in self.sources:
            digest.update(name.encode() + b"\0" + _source(name))
        return digest.hexdigest()[:16]

    def _give_file(self, function: Callable[..., Any]) -> None:
        """Gives a function of a module in a zip file, as on Spark's workers, a source file of its own.

        Numba stores machine code by the path of the source; that of a zip file differs between sessions.
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
            # Another process may be removing it at the same time.
            with contextlib.suppress(FileNotFoundError):
                if path != current:
                    others.append((path.stat().st_mtime, path))
        for _, directory in sorted(others)[:-_KEPT]:
            shutil.rmtree(directory, ignore_errors=True)


def _modules(source: str) -> list[str]:
    """The module of this name, or the modules of the package without its subpackages."""
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
    """Whether no other user can write to the directory."""
    status = room.lstat()
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )
