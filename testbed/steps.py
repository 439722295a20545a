"""Independent steps of a clean-up: every step runs, whether or not other steps fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from testbed.errors import RunError

P = ParamSpec("P")
T = TypeVar("T")


class Steps:
    """Runs steps and collects their failures.

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
