"""Memory of processes, its collection, and their share of the processors."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FunctionType, ModuleType

import psutil


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
