"""Memory of processes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import psutil


def resident_bytes() -> int:
    """Resident memory of this process."""
    resident: int = psutil.Process().memory_info().rss
    return resident


def proportional_bytes(pids: Iterable[int]) -> int:
    """Proportional set size of processes that live: a page that n of them share counts 1/n in each."""
    total = 0
    for pid in pids:
        with suppress(psutil.Error):
            total += psutil.Process(pid).memory_full_info().pss
    return total
