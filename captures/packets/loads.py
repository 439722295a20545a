"""Numbers from memory, for compiled loops: one instruction each, at any address, in network order.

To numba an item of an array is a calculation of its place, and an array that a function is given is seven
numbers and a count of its users. Loops over a few bytes here and there are several times faster on addresses.
Nothing checks these: who calls must know that the bytes are there.

Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _load(bits: int) -> Callable[[int], int]:
    """A function of an address, for compiled code: the unsigned number of so many bits that lies there."""

    @intrinsic  # type: ignore[untyped-decorator]
    def load(_typing: Any, address: Any) -> Any:
        def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = builder.load(pointer, align=1)
            if bits > 8:
                value = builder.bswap(value)
            return builder.zext(value, ir.IntType(64))

        return types.int64(address), code

    made: Callable[[int], int] = load
    return made


load_u8, load_u16, load_u32 = _load(8), _load(16), _load(32)
