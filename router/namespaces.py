"""System calls that Python 3.11 lacks: entering a network namespace, and dying with the parent."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


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
        _check(_libc.setns(descriptor, _CLONE_NEWNET), f"setns to {path}")
    finally:
        os.close(descriptor)


def enter_new_network_namespace() -> None:
    """Moves this thread into a network namespace that it makes (unshare(2)).

    Raises:
        OSError: the process has no permission to make one, or the machine has too many.
    """
    _check(_libc.unshare(_CLONE_NEWNET), "unshare")


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
    _check(_libc.prctl(_PR_SET_PDEATHSIG, int(by), 0, 0, 0), "prctl")
    # The parent may have ended before the call of prctl.
    if os.getppid() != parent:
        raise ProcessLookupError(f"parent process {parent} has ended")
