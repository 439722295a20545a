"""Writing TOML values: Python's standard library reads TOML but does not write it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence


def toml_value(value: str | bool | int | float | Sequence[int]) -> str:
    """A value as TOML text: string, boolean, integer, finite float, or a list of integers.

    Raises:
        ValueError: a float that is not finite.
    """
    if isinstance(value, str):
        # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not finite")
        return repr(value)
    return f"[{', '.join(map(str, value))}]"
