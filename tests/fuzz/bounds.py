"""Bounded time and memory, as a property of each input that is fuzzed."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path

from tests.fuzz.inputs import Run

#: Seconds of CPU, of all threads, that one input of `inputs.LONGEST` bytes may take, under an instrumenting
#: engine too.
CPU_S = 20.0
#: Bytes that one input may take, beyond those that the process has before.
MEMORY_BYTES = 256 * 1024 * 1024

#: "5" makes the peak of this process its present memory (proc_pid_clear_refs(5)).
_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
_MEMORY = re.compile(rb"^VmHWM:\s*(\d+) kB\nVmRSS:\s*(\d+) kB", re.M)


class OverBoundError(AssertionError):
    """An input takes more time or memory than any may."""


def checked(run: Run, data: bytes) -> None:
    """Runs a target on an input.

    Where the peak of the process cannot be reset (some kernels have no such file, and containers may have it
    read-only), memory below an earlier peak is not noticed.

    Raises:
        OverBoundError: it took longer than `CPU_S`, or more than `MEMORY_BYTES`.
    """
    begun = time.process_time()
    used = _taken(run, data)
    seconds = time.process_time() - begun
    if seconds > CPU_S:
        raise OverBoundError(f"{len(data)} bytes took {seconds:.1f} s of CPU; at most {CPU_S:g}")
    # An engine may have grown meanwhile, which it does not do for the same input again.
    if used > MEMORY_BYTES and (used := _taken(run, data)) > MEMORY_BYTES:
        raise OverBoundError(f"{len(data)} bytes took {used} bytes of memory; at most {MEMORY_BYTES}")


def _taken(run: Run, data: bytes) -> int:
    """The bytes by which the process exceeds its present memory during a run, 0 below an earlier peak."""
    with suppress(OSError):
        _CLEAR.write_bytes(b"5")
    before, present = _memory()
    run(data)
    peak, _ = _memory()
    return peak - present if peak > before else 0


def _memory() -> tuple[int, int]:
    """The peak and the present memory of this process, bytes."""
    found = _MEMORY.search(_STATUS.read_bytes())
    assert found is not None
    return int(found[1]) * 1024, int(found[2]) * 1024
