"""Independent steps of a clean-up: every step runs, whether or not other steps fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")


class Steps:
    """Runs steps and collects their failures.

    Attributes:
        failures: a sentence for each step that failed, in order.
    """

    def __init__(self) -> None:
        self.failures: list[str] = []

    def run(self, name: str, step: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Runs a step.

        An exception becomes a failure, and the caller continues with the next step.

        KeyboardInterrupt and SystemExit are not caught.
        """
        try:
            step(*args, **kwargs)
        except Exception as error:
            said = str(error) or type(error).__name__
            self.failures.append(f"{name}: {said}")
