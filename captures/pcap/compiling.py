"""Compiles loops over bytes with numba where it is installed; otherwise they run as plain Python.

Importing numba and loading its machine code takes longer than reading the captures of a small run. A loop is
therefore compiled on the first use of `Loop.compiled`, and readers use that for large amounts of data only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from router.native.compiler import Compiler

#: For fewer bytes, plain Python is faster than importing numba. Each byte counts about four times.
_WORTH_COMPILING_BYTES = 4_000_000
#: The modules of the loops, and of the constants that the loops use.
_SOURCES = (
    "captures.frames.body_checks",
    "captures.frames.body_loops",
    "captures.frames.loops",
    "captures.frames.predicate_text",
    "captures.pcap.walk",
    "captures.pcap.gather",
    "captures.pcap.internet",
    "captures.pcap.links",
    "router.predicates.lexer",
    "router.predicates.model",
    "router.wire.addresses",
    "router.wire.format",
    "router.wire.header",
    "router.wire.tlv",
)


class Loop:
    """A function over bytes and arrays, in the subset of Python that numba compiles.

    Attributes:
        plain: the function itself. Its bytes must be a memoryview, whose items are Python integers.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.plain = function

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """The compiled function, which is kept on disk between processes.

        Needs numba (`numba_is_there`).
        """
        return compiler().kernel(self.plain)


@cache
def compiler() -> Compiler:
    """The compiler of the loops of this package.

    Imports numba.
    """
    from router.native.compiler import Compiler

    return Compiler("captures", *_SOURCES)


class _Asked:
    """The number of bytes in all calls of `should_compile`: many small captures are much data, too."""

    size = 0


def should_compile(size: int) -> bool:
    """Whether compiled loops are faster for a further `size` bytes, including the time to load them."""
    _Asked.size += size
    return numba_is_there() and (_Asked.size >= _WORTH_COMPILING_BYTES or numba_is_loaded())


def numba_is_loaded() -> bool:
    """Whether numba has been imported, so that compiled loops are faster for any size."""
    return "numba" in sys.modules


@cache
def numba_is_there() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None
