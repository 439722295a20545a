"""Compiles loops over bytes with numba where it is installed; else they run as plain Python.

Importing numba and loading what it has compiled takes longer than the captures of a small run do. A loop is
therefore compiled when it is first asked for, which a reader does for much data only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from router.native.compiler import Compiler

#: Below so many bytes, plain Python is done before numba is imported. Each is asked for some four times.
_WORTH_COMPILING_BYTES = 4_000_000
#: Where the loops are, and what they take numbers from.
_SOURCES = (
    "captures.frames.loops",
    "captures.pcap.walk",
    "captures.pcap.gather",
    "captures.pcap.internet",
    "router.predicates.model",
    "router.wire.addresses",
    "router.wire.format",
    "router.wire.header",
    "router.wire.layouts",
    "router.wire.tlv",
)


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
        return compiler().kernel(self.plain)


@cache
def compiler() -> Compiler:
    """What compiles the loops of this package. Imports numba."""
    from router.native.compiler import Compiler

    return Compiler("captures", *_SOURCES)


class _Asked:
    """For how many bytes this process has asked: many small captures are much data too."""

    size = 0


def should_compile(size: int) -> bool:
    """Whether compiled loops are faster for `size` bytes more, what it takes to have them included."""
    _Asked.size += size
    return numba_is_there() and (_Asked.size >= _WORTH_COMPILING_BYTES or numba_is_loaded())


def numba_is_loaded() -> bool:
    """Whether numba has been imported, so that compiled loops are faster for any size."""
    return "numba" in sys.modules


@cache
def numba_is_there() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None
