"""Numbers in the requests of applications, each with a clear error."""

from __future__ import annotations

from typing import Any

from router.protocol.service import Request, RequestError


def integer_in(request: Request, name: str, low: int, high: int) -> int:
    """A field that is an integer from `low` to `high`.

    Raises:
        RequestError: it is something else.
    """
    value: Any = request.get(name)
    # In JSON as in Python, true is no number.
    if type(value) is not int or not low <= value <= high:
        raise RequestError(f"{name}: expected an integer from {low} to {high}, got {value!r}")
    return value


def seconds_in(request: Request, name: str, high: float) -> float:
    """A field that is a number above 0 and at most `high`.

    Raises:
        RequestError: it is something else.
    """
    value: Any = request.get(name)
    if type(value) not in (int, float) or not 0 < value <= high:
        raise RequestError(f"{name}: expected a number above 0, at most {high:g}, got {value!r}")
    return float(value)
