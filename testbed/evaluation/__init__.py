"""Figures of the papers, sweeps of parameters, and attacks on private frames: each reads whole runs."""

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt


def quantiles(values: Collection[Any]) -> npt.NDArray[np.float64]:
    """Returns the 10, 50 and 90 % quantiles of numbers or arrays; of fewer than 3, 0, 50 and 100 %."""
    shares = (0.1, 0.5, 0.9) if len(values) > 2 else (0, 0.5, 1)
    return np.asarray(np.quantile([*values], shares, axis=0))
