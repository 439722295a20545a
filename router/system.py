"""Processes and system calls: starting a module, entering a network namespace, dying with the parent.

Python 3.11 lacks these system calls. The module uses the standard library alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
#: ioctl of a socket: the time at which the frame read last came in, a timespec. The socket module lacks it.
SIOCGSTAMPNS = 0x8907
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.recvmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p)


def start_module(module: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Starts `python -m module arguments...` in a session of its own, out of reach of a terminal's Ctrl-C.

    The child does not import from the working folder (`-P`): it may run as root, and the folder may have a
    `testbed.py` of somebody else, or a `json.py` of the user.

    Args:
        options: those of `subprocess.Popen`.

    Raises:
        OSError: the process cannot be started.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments], start_new_session=True, **options
    )


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def namespace_path(where: str | int) -> Path:
    """Returns the file of a network namespace, given as that file or as the id of a process in the
    namespace."""
    return Path(f"/proc/{where}/ns/net") if isinstance(where, int) else Path(where)


def enter_network_namespace(where: str | int) -> None:
    """Moves this thread into a network namespace (setns(2)); sockets made afterwards belong to it.

    Raises:
        OSError: the namespace does not exist, or the process has no permission to enter it.
    """
    path = namespace_path(where)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(LIBC.setns(descriptor, _CLONE_NEWNET), f"setns to {path}")
    finally:
        os.close(descriptor)


def enter_new_network_namespace() -> None:
    """Moves this thread into a network namespace that it makes (unshare(2)).

    Raises:
        OSError: the process has no permission to make one, or the machine has too many.
    """
    _check(LIBC.unshare(_CLONE_NEWNET), "unshare")


@contextmanager
def returning_to_its_namespace() -> Iterator[None]:
    """Moves this thread back into its network namespace at the end of the block."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        try:
            enter_network_namespace(f"/proc/self/fd/{home}")
        finally:
            os.close(home)


def die_with(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Has the kernel send this process a signal when `parent`, which must be its parent, ends (prctl(2)).

    Raises:
        ProcessLookupError: the parent has ended already.
    """
    _check(LIBC.prctl(_PR_SET_PDEATHSIG, int(by), 0, 0, 0), "prctl")
    # The parent may have ended before the call of prctl.
    if os.getppid() != parent:
        raise ProcessLookupError(f"parent process {parent} has ended")
