"""Waiting for a condition: poll until it holds, with a deadline and the last difference in the error."""

from __future__ import annotations

import time
from collections.abc import Callable

from testbed.errors import RunError


def wait_until(
    difference: Callable[[], str | None], timeout_s: float, what: str, interval_s: float = 0.02
) -> None:
    """Polls `difference` until it returns None.

    Args:
        difference: returns the remaining difference from the expected state, in words, or None.
        timeout_s: wall seconds to wait.
        what: the expected state in words, for the error.
        interval_s: wall seconds between polls.

    Raises:
        RunError: the deadline passed; the message has the last difference.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        left = difference()
        if left is None:
            return
        if time.monotonic() >= deadline:
            raise RunError(f"{what}: not after {timeout_s:g} s; {left}")
        time.sleep(interval_s)
