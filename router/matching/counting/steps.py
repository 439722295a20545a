"""How many steps a search may take."""

from __future__ import annotations

import sys

#: Steps of a bounded search, of up to 0.2 us each.
MOST_STEPS = 40_000
#: Bytes of a text that are compared in the time of a step.
BYTES_A_STEP = 256


class StepsExceededError(Exception):
    """A search has taken as many steps as it may."""


class Steps:
    """The steps that a search may still take.

    Attributes:
        left: their number.

    Args:
        most: the number of steps; None: no bound.
    """

    __slots__ = ("left",)

    def __init__(self, most: int | None) -> None:
        self.left = sys.maxsize if most is None else most

    def take(self, steps: int) -> None:
        """Counts steps that are about to be taken.

        Raises:
            StepsExceededError: they exceed what is left.
        """
        self.left -= steps
        if self.left < 0:
            raise StepsExceededError
