"""Compiles loops over bytes with numba where it is installed; else they run as plain Python.

Importing numba and loading what it has compiled takes longer than the captures of a small run do. A loop is
therefore compiled when it is first asked for, which a reader does for much data only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any, TypeVar

#: Below so many bytes, plain Python is done before numba is imported.
_WORTH_COMPILING_BYTES = 4_000_000

Function = TypeVar("Function", bound=Callable[..., Any])


class Loop:
    """A function over bytes and arrays, in the subset of Python that numba compiles.

    Attributes:
        plain: the function itself; it must get bytes as a memoryview, whose items are Python's integers.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.plain = function

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """The function compiled, kept on disk between processes. Needs numba (`numba_is_there`)."""
        return compiled(self.plain)


def compiled(function: Function) -> Function:
    """The function compiled when it is first called, kept on disk between processes. Imports numba."""
    from numba import njit

    try:
        made: Function = njit(cache=True, nogil=True)(function)
    except RuntimeError:
        # No place to keep it: a read-only installation without a home.
        made = njit(nogil=True)(function)
    return made


def inlined(function: Function) -> Function:
    """The function for compiled ones, which get its instructions in place of calls. Imports numba.

    For what does little, without loops: a call with its checks takes longer.
    """
    from numba import njit

    made: Function = njit(inline="always")(function)
    return made


def worth_compiling(size: int) -> bool:
    """Whether compiled loops are faster for `size` bytes, what it takes to have them included."""
    return numba_is_there() and (size >= _WORTH_COMPILING_BYTES or numba_is_loaded())


def numba_is_loaded() -> bool:
    """Whether numba has been imported, so that compiled loops are faster for any size."""
    return "numba" in sys.modules


@cache
def numba_is_there() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None
