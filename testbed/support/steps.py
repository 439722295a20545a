"""Conditions that a run waits for, and the independent steps of a clean-up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from testbed.support.errors import RunError

P = ParamSpec("P")
T = TypeVar("T")


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


class Steps:
    """Runs every step, whether or not other steps fail, and collects the failures.

    Attributes:
        failures: a sentence for each step that failed, in order.
    """

    def __init__(self) -> None:
        self.failures: list[str] = []

    def run(self, name: str, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Runs a step and returns its result, or None if it failed.

        An exception becomes a failure, and the caller continues with the next step.

        KeyboardInterrupt and SystemExit are not caught.
        """
        try:
            return step(*args, **kwargs)
        except Exception as error:
            said = str(error) or type(error).__name__
            self.failures.append(f"{name}: {said}")
            return None

    def check(self) -> None:
        """Raises RunError with all failures, if there is one; to be called after the last step."""
        if self.failures:
            raise RunError("; ".join(self.failures))
