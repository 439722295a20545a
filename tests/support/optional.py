"""Values that may be None, and are not."""

from __future__ import annotations

from typing import TypeVar

_T = TypeVar("_T")


def some(value: _T | None) -> _T:
    """Returns a value that is not None."""
    assert value is not None
    return value
