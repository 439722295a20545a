"""Memory and calls that a function takes, which are alike on slow machines and on fast."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


def memory_of(function: Callable[[], Answer]) -> tuple[Answer, int, int]:
    """Returns the answer of a function, the bytes that it leaves allocated, and the most at any time."""
    tracemalloc.start()
    try:
        answer = function()
        return answer, *tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def calls_of(function: Callable[[], object]) -> int:
    """Returns the number of functions, Python's and built-in, that a function calls."""
    count = 0

    def counted(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count
