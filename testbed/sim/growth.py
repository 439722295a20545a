"""Arrays that grow."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def doubled(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns an array with twice as many rows, of which the first are those of `array`, and others are 0.

    The rows that are not written take no memory: the kernel gives a page when it is first written.
    """
    found = np.zeros((2 * len(array), *array.shape[1:]), array.dtype)
    found[: len(array)] = array
    return found
