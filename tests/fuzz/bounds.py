"""Bounded time and memory, as a property of each input that is fuzzed."""

from __future__ import annotations

import resource
import time
import tracemalloc

from tests.fuzz.targets import Run

#: Seconds of CPU that one input of `targets.LONGEST` bytes may take, under an instrumenting engine too.
CPU_S = 20.0
#: Bytes by which the memory of the process may grow with one input.
MEMORY_BYTES = 256 * 1024 * 1024


class OverBoundError(AssertionError):
    """An input takes more time or memory than any may."""


def checked(run: Run, data: bytes) -> None:
    """Runs a target on an input.

    Raises:
        OverBoundError: it took longer than `CPU_S`, or more than `MEMORY_BYTES`.
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.thread_time()
    run(data)
    seconds = time.thread_time() - begun
    if seconds > CPU_S:
        raise OverBoundError(f"{len(data)} bytes took {seconds:.1f} s of CPU; at most {CPU_S:g}")
    if (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024 > MEMORY_BYTES:
        # Other threads, or an engine, may have grown meanwhile.
        used = allocated(run, data)
        if used > MEMORY_BYTES:
            raise OverBoundError(f"{len(data)} bytes took {used} bytes of memory; at most {MEMORY_BYTES}")


def allocated(run: Run, data: bytes) -> int:
    """The most memory, in bytes, that Python objects of a run took at a time."""
    tracemalloc.start()
    try:
        run(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
