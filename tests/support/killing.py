"""A calculation whose process may die, as a task of Spark."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any


def measured(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Returns its arguments; with `kills`, ends its process as a lack of memory would."""
    if parameters["kills"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return {**parameters, "seed": seed}
