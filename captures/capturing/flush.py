"""Makes the tcpdump processes of a run write their buffers to their files.

A stream that follows the captures then sees a frame about two seconds after it crossed its link.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil

from captures.rundir.layout import RunLayout


def flush_captures(run_dir: Path) -> int:
    """Makes every tcpdump that writes into a run folder write its buffer.

    Returns the number of processes.

    Only processes that handle the signal for it (SIGUSR2) are sent the signal: it would end others.
    """
    folder = f"{RunLayout(run_dir).captures_folder}{os.sep}"
    flushed = 0
    for process in psutil.process_iter(["name", "cmdline"]):
        arguments = process.info["cmdline"] or ()
        if process.info["name"] == "tcpdump" and any(argument.startswith(folder) for argument in arguments):
            with suppress(OSError, psutil.Error):
                if _handles(process.pid, signal.SIGUSR2):
                    process.send_signal(signal.SIGUSR2)
                    flushed += 1
    return flushed


def _handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal; psutil does not say."""
    status = Path("/proc", str(pid), "status").read_text()
    caught = int(status.partition("\nSigCgt:")[2].split()[0], 16)
    return bool(caught >> (number - 1) & 1)
