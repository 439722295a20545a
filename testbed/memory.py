"""Memory of processes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import psutil


def resident_bytes() -> int:
    """Returns the resident memory of this process in bytes."""
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
