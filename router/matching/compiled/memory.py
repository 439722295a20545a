"""Arrays by address: how one call hands a whole table to compiled code.

Every array among the arguments of a compiled function costs some 100 ns a call, and a table has dozens. So
tables are passed as the address of a row of numbers, in which the addresses of the arrays stand. Whoever passes an
address keeps the array alive during the call.
"""

# ruff: noqa: ANN001, ANN201
from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from router.matching.compiled.compiler import inlined


@intrinsic
def _pointer(_typing: Any, address: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


@inlined
def bytes_at(address: int, length: int) -> npt.NDArray[np.uint8]:
    """The uint8 array of `length` items that stands at an address."""
    array: npt.NDArray[np.uint8] = carray(_pointer(address), (length,), np.uint8)
    return array


@inlined
def ints_at(address: int, length: int) -> npt.NDArray[np.int32]:
    """The int32 array at an address."""
    array: npt.NDArray[np.int32] = carray(_pointer(address), (length,), np.int32)
    return array


@inlined
def longs_at(address: int, length: int) -> npt.NDArray[np.int64]:
    """The int64 array at an address."""
    array: npt.NDArray[np.int64] = carray(_pointer(address), (length,), np.int64)
    return array


@inlined
def words_at(address: int, length: int) -> npt.NDArray[np.uint64]:
    """The uint64 array at an address."""
    array: npt.NDArray[np.uint64] = carray(_pointer(address), (length,), np.uint64)
    return array


def address_of(array: npt.NDArray[Any]) -> int:
    """Where an array's items stand.

    Raises:
        ValueError: they do not stand one after the other.
    """
    if not array.flags.c_contiguous:
        raise ValueError("expected a contiguous array")
    return int(array.ctypes.data)
