"""Memory of processes, its collection, and their share of the processors."""

from __future__ import annotations

import gc
import os
import resource
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FunctionType, ModuleType

import psutil

#: Settings with which Python takes memory from the C library, and the C library in huge pages.
_HUGE_PAGES = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def start_again_in_huge_pages() -> None:
    """Starts this command again with its memory in huge pages; does nothing in the command started again.

    For a command whose memory exceeds what the processor's table of pages spans. Smaller commands are slower
    so: Python's own allocator costs less than that of the C library.
    """
    if "PYTHONMALLOC" not in os.environ:
        sys.stdout.flush()
        os.execvpe(sys.orig_argv[0], sys.orig_argv, os.environ | _HUGE_PAGES)
    for name, value in _HUGE_PAGES.items():
        # Children, such as Spark, are small.
        if os.environ.get(name) == value:
            del os.environ[name]


def allow_open_files(more: int) -> None:
    """Raises the soft limit on open files for so many beside those that a process has anyway."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = more + 256
    if soft != resource.RLIM_INFINITY and soft < needed:
        ceiling = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (ceiling, hard))


def resident_bytes() -> int:
    resident: int = psutil.Process().memory_info().rss
    return resident


def proportional_bytes(pids: Iterable[int]) -> int:
    """Returns the proportional set size of live processes: a page that n processes share counts 1/n in
    each."""
    total = 0
    for pid in pids:
        with suppress(psutil.Error):
            total += psutil.Process(pid).memory_full_info().pss
    return total


def object_bytes(root: object) -> int:
    """Returns the memory of an object and of all that it refers to, in bytes.

    An object that several refer to counts once. Classes, functions and modules do not count.
    """
    seen, waiting, total = {id(root)}, [root], 0
    while waiting:
        found = waiting.pop()
        total += sys.getsizeof(found)
        for each in gc.get_referents(found):
            if id(each) not in seen and not isinstance(each, type | FunctionType | ModuleType):
                seen.add(id(each))
                waiting.append(each)
    return total


def set_priority(leader: int, policy: int, nice: int) -> None:
    """Sets the priority of the leader of a session, its descendants and their threads."""
    # The scheduler shares the processors among sessions first, on kernels with groups by session.
    with suppress(OSError):
        Path(f"/proc/{leader}/autogroup").write_text(f"{nice}\n")
    # A process or thread may have ended; the second pass finds threads that were started meanwhile.
    for _ in range(2):
        with suppress(psutil.Error):
            process = psutil.Process(leader)
            for thread in (t for p in (process, *process.children(recursive=True)) for t in p.threads()):
                with suppress(OSError):
                    os.sched_setscheduler(thread.id, policy, os.sched_param(0))
                    os.setpriority(os.PRIO_PROCESS, thread.id, nice)


@contextmanager
def uncollected() -> Iterator[None]:
    """Switches the collection of cycles off.

    A collection takes time for each object that is alive, and finds little where little garbage is in cycles;
    that is left to the caller to collect.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
