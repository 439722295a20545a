"""Loops over bytes: plain Python for few bytes, compiled with numba for many.

Importing numba and loading its machine code takes longer than reading the captures of a small run. A loop is
therefore compiled on the first use of `Loop.compiled`, and readers use that for large amounts of data only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from router.native import Compiler

#: For fewer bytes, plain Python is faster than importing numba. Each byte counts about four times. A run of
#: 41,000 frames (39 MB so counted) took 0.8 s in plain Python and 1.2 s compiled; 53,000 frames (70 MB) took
#: 1.4 s either way.
_WORTH_COMPILING_BYTES = 50_000_000
#: The modules of the loops, and of the constants that the loops use.
_SOURCES = (
    "captures.frames.messages",
    "captures.pcap.blocks",
    "captures.pcap.internet",
    "captures.pcap.walk",
    "router.predicates",
    "router.predicates.printer",
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

    def __call__(self, data: bytes | memoryview, read: Sequence[npt.NDArray[Any]], *others: Any) -> Any:
        """Calls the function with data, the arrays that it only reads, and its other arguments."""
        if should_compile(len(data)):
            return self.compiled(np.frombuffer(data, np.uint8), *read, *others)
        return self.plain(memoryview(data), *(each.tolist() for each in read), *others)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """The compiled function, which is kept on disk between processes."""
        return compiler().kernel(self.plain)


@cache
def compiler() -> Compiler:
    """The compiler of the loops of this package.

    Imports numba.
    """
    from router.native import Compiler

    return Compiler("captures", *_SOURCES)


class _Asked:
    """The number of bytes in all calls of `should_compile`: many small captures are much data, too."""

    size = 0


def should_compile(size: int) -> bool:
    """Whether compiled loops are faster for a further `size` bytes, including the time to load them."""
    _Asked.size += size
    return _Asked.size >= _WORTH_COMPILING_BYTES
