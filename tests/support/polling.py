"""Waiting for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds after which `wait_for` fails: far more than a busy machine takes for what tests wait for.
TIMEOUT = 60.0


def wait_for(difference: Callable[[], str | None]) -> None:
    """Polls until `difference` is None; fails with the last difference after `TIMEOUT`."""
    deadline = time.monotonic() + TIMEOUT
    while (left := difference()) is not None:
        assert time.monotonic() < deadline, left
        time.sleep(0.005)


def poll(ask: Callable[[], T | None], timeout_s: float, subject: str) -> T:
    """Polls until `ask` returns an answer, and returns it; fails with `subject` after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while (answer := ask()) is None:
        assert time.monotonic() < deadline, f"{subject}: not after {timeout_s:g} s"
        time.sleep(0.05)
    return answer
