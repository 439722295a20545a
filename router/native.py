"""Machine code from Python functions, by Numba: compilation, storage for all processes, memory by address.

Each array among the arguments of a compiled function costs some 100 ns a call, and is passed on between
functions as seven numbers. A table is therefore passed as one number: the address of a row that contains the
addresses of its arrays. The caller keeps the arrays alive during the call. Nothing is checked.
"""

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
from importlib.abc import InspectLoader
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

# The working folder may have a file of settings of somebody else.
config._config_fname = os.devnull
config.reload_config()

_Function = TypeVar("_Function", bound=Callable[..., Any])
# Numba infers the types in compiled functions, and checks them; annotations name them for the reader.
#: A number in a compiled function: int64.
I64: TypeAlias = Any
#: The address, as int64, of an array or of a row.
Address: TypeAlias = Any
#: A NumPy array.
Array: TypeAlias = Any
#: A truth value.
Flag: TypeAlias = Any
#: A double.
Real: TypeAlias = Any
#: Several values.
Tuple: TypeAlias = Any
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
            sources: the modules on which the machine code depends; `package.*` stands for the package and its
                modules, without subpackages.

        Raises:
            ModuleNotFoundError: a source does not exist.
        """
        self._name = name
        self.sources = [module for source in (__name__, *sources) for module in _modules(source)]

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
    """The module of this name, or, of `package.*`, the package and its modules without its subpackages."""
    name = source.removesuffix(".*")
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"no module {name}", name=name)
    if name == source:
        return [name]
    found = pkgutil.iter_modules(spec.submodule_search_locations)
    return [name, *sorted(f"{name}.{module.name}" for module in found if not module.ispkg)]


def _source(module: str) -> bytes:
    spec = find_spec(module)
    source = None if spec is None else cast(InspectLoader, spec.loader).get_source(module)
    assert source is not None, f"{module} has no source"
    return source.encode()


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


#: Reads an element of an array as int64, or a double, given the address of the array and the index.
Reader = Callable[[Address, I64], Any]
#: Writes an element of an array, truncated to its width, given address, index and value.
Writer = Callable[[Address, I64, Any], None]
#: Reads a number at an address as int64.
Loader = Callable[[Address], I64]
_LONG = ir.IntType(64)


def _reader(bits: int, *, signed: bool = False, real: bool = False) -> Reader:
    def read(_typing: Any, address: Any, index: Any) -> Any:  # noqa: ARG001 - Numba minds the names
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            item = builder.load(_pointer(builder, arguments, bits), align=1)
            if real:
                return builder.bitcast(item, ir.DoubleType())
            return (builder.sext if signed else builder.zext)(item, _LONG)

        return (types.float64 if real else types.int64)(types.int64, types.int64), generate

    reader: Reader = intrinsic(read)
    return reader


def _writer(bits: int, *, real: bool = False) -> Writer:
    def write(_typing: Any, address: Any, index: Any, value: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            item = (builder.bitcast if real else builder.trunc)(arguments[2], ir.IntType(bits))
            builder.store(item, _pointer(builder, arguments, bits), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.float64 if real else types.int64), generate

    writer: Writer = intrinsic(write)
    return writer


def _loader(bits: int) -> Loader:
    def load(_typing: Any, address: Any) -> Any:  # noqa: ARG001
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            item = builder.load(builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()), align=1)
            return builder.zext(builder.bswap(item) if bits > 8 else item, _LONG)

        return types.int64(types.int64), generate

    loader: Loader = intrinsic(load)
    return loader


def _pointer(builder: Any, arguments: Any, bits: int) -> Any:
    width = ir.Constant(_LONG, bits // 8)
    place = builder.add(arguments[0], builder.mul(arguments[1], width))
    return builder.inttoptr(place, ir.IntType(bits).as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def lowest_bit(_typing: Any, word: Any) -> Any:  # noqa: ARG001
    """Returns the index of the lowest 1 of a word that is not 0."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


byte_at, short_at, int_at = _reader(8), _reader(16), _reader(32, signed=True)
long_at, real_at = _reader(64), _reader(64, real=True)
put_byte, put_short, put_int = _writer(8), _writer(16), _writer(32)
put_long, put_real = _writer(64), _writer(64, real=True)
#: Reads the number in network byte order at an address: unsigned, or signed if it has 64 bits.
load_u8, load_u16, load_u32, load_u64 = _loader(8), _loader(16), _loader(32), _loader(64)


@Compiler.callee
def _sequence_length(at: Address, end: Address) -> I64:
    """The bytes of the UTF-8 sequence at `at`, whose first byte is not ASCII; 0: malformed."""
    first = load_u8(at)
    if first < 0xC2 or first > 0xF4:
        return 0
    length = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if at + length > end:
        return 0
    for position in range(at + 1, at + length):
        if load_u8(position) & 0xC0 != 0x80:
            return 0
    second = load_u8(at + 1)
    # Longer than necessary; surrogates; behind the last code point.
    if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F):
        return 0
    if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
        return 0
    return length


@Compiler.callee
def is_text(at: Address, end: Address) -> Flag:
    """Whether the bytes from one address to another are UTF-8."""
    while at < end:
        if load_u8(at) < 128:
            at += 1
            continue
        length = _sequence_length(at, end)
        if length == 0:
            return False
        at += length
    return True


def address_of(array: npt.NDArray[np.generic]) -> int:
    """Returns the address of the elements of an array.

    Raises:
        ValueError: the array is not contiguous.
    """
    if not array.flags.c_contiguous:
        raise ValueError("expected a contiguous array")
    # Several times faster than `ctypes`; a small table has some thirty arrays.
    return int(array.__array_interface__["data"][0])


# Functions of the C library: each is a symbol of the process, so that machine code that uses it can
# be stored.
_CALL = types.int32(types.int32, types.intp, types.uint32, types.int32, types.intp)

#: recvmmsg(2): descriptor, address of mmsghdr[], their number, flags, address of a timeout (0: none).
recvmmsg = types.ExternalFunction("recvmmsg", _CALL)
#: sendmmsg(2): descriptor, address of mmsghdr[], their number, flags.
sendmmsg = types.ExternalFunction("sendmmsg", types.int32(types.int32, types.intp, types.uint32, types.int32))
#: memcpy(3): target, source, bytes.
memcpy = types.ExternalFunction("memcpy", types.intp(types.intp, types.intp, types.intp))
#: clock_gettime(2): clock, address of a timespec.
clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.intp))
#: epoll_wait(2): descriptor, address of epoll_event[], their number, milliseconds.
epoll_wait = types.ExternalFunction(
    "epoll_wait", types.int32(types.int32, types.intp, types.int32, types.int32)
)
#: ioctl(2): descriptor, request, address.
ioctl = types.ExternalFunction("ioctl", types.int32(types.int32, types.uint64, types.intp))
