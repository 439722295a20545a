"""Makes the tcpdump processes of a run write what they hold in their buffers.

A stream that follows the captures then sees a frame about two seconds after it crossed its link.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from captures.rundir.layout import RunLayout


def flush_captures(run_dir: Path) -> int:
    """Makes every tcpdump that writes into a run folder write what it holds; returns how many there are.

    Only processes that handle the signal for it (SIGUSR2) are sent it: it would end others.
    """
    folder = os.fsencode(RunLayout(run_dir).captures_folder) + b"/"
    flushed = 0
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with suppress(OSError):
            if (process / "comm").read_bytes() != b"tcpdump\n":
                continue
            if any(word.startswith(folder) for word in (process / "cmdline").read_bytes().split(b"\0")):
                flushed += _flush(process)
    return flushed


def _flush(process: Path) -> bool:
    status = (process / "status").read_text()
    caught = int(status.partition("\nSigCgt:")[2].split()[0], 16)
    if not caught >> (signal.SIGUSR2 - 1) & 1:
        return False
    os.kill(int(process.name), signal.SIGUSR2)
    return True
