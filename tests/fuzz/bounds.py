"""Bounded time and memory, as a property of each input that is fuzzed."""

from __future__ import annotations

import os
import re
import resource
import time
import tracemalloc
from functools import cache
from pathlib import Path

from tests.fuzz.targets import Run

#: Seconds of CPU, of all threads, that one input of `targets.LONGEST` bytes may take, under an instrumenting
#: engine too.
CPU_S = 20.0
#: Bytes that one input may take, beyond those that the process has before.
MEMORY_BYTES = 256 * 1024 * 1024

#: `clear_refs` takes "5", which makes the peak of this process its present memory (proc_pid_clear_refs(5)).
#: Kernels without CONFIG_PROC_PAGE_MONITOR have no such file, and a container may have /proc read-only.
_PROCESS = Path("/proc/self")
_PEAK = re.compile(rb"^VmHWM:\s*(\d+) kB", re.M)
_PAGE_BYTES = resource.getpagesize()


class OverBoundError(AssertionError):
    """An input takes more time or memory than any may."""


def checked(run: Run, data: bytes) -> None:
    """Runs a target on an input.

    Where the peak of the process cannot be reset, the memory of each input is that of Python's objects: the
    input takes several times as long, and memory that compiled code takes by itself is not seen.

    Raises:
        OverBoundError: it took longer than `CPU_S`, or more than `MEMORY_BYTES`.
    """
    begun = time.process_time()
    used = _grown(run, data)
    whole_process = used is not None
    if used is None:
        used = allocated(run, data)
    seconds = time.process_time() - begun
    if seconds > CPU_S:
        raise OverBoundError(f"{len(data)} bytes took {seconds:.1f} s of CPU; at most {CPU_S:g}")
    if used > MEMORY_BYTES and whole_process:
        # An engine may have grown meanwhile: a second time, the input alone decides.
        used = max(_grown(run, data) or 0, allocated(run, data))
    if used > MEMORY_BYTES:
        raise OverBoundError(f"{len(data)} bytes took {used} bytes of memory; at most {MEMORY_BYTES}")


def measures_the_process() -> bool:
    """Whether the peak of this process can be reset: then the memory of an input is that of the process."""
    return _files(os.getpid()) is not None


def allocated(run: Run, data: bytes) -> int:
    """The most memory, in bytes, that Python objects of a run took at a time."""
    tracemalloc.start()
    try:
        run(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _grown(run: Run, data: bytes) -> int | None:
    """The bytes by which the process exceeded its present memory during a run, 0 for those of an input within
    its bound; None: nothing says, and the target was not run."""
    files = _files(os.getpid())
    if files is None:
        return None
    clear, present, status = files
    os.write(clear, b"5")
    before = int(os.pread(present, 256, 0).split()[1]) * _PAGE_BYTES
    run(data)
    # This peak is cheap to ask for, and never below the other: a process inherits that of its parent.
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before <= MEMORY_BYTES:
        return 0
    peak = _PEAK.search(os.pread(status, 65_536, 0))
    assert peak is not None
    return max(0, int(peak[1]) * 1024 - before)


@cache
def _files(pid: int) -> tuple[int, int, int] | None:  # noqa: ARG001
    """The open files `clear_refs`, `statm` and `status` of this process; None: its peak cannot be reset.

    An open file stays that of the process that opened it, in its children too.
    """
    opened = []
    try:
        for name, mode in (("clear_refs", os.O_WRONLY), ("statm", os.O_RDONLY), ("status", os.O_RDONLY)):
            opened.append(os.open(_PROCESS / name, mode | os.O_CLOEXEC))
        os.write(opened[0], b"5")
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        return None
    return opened[0], opened[1], opened[2]
