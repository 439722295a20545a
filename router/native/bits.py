"""Positions of bits in compiled code."""

from __future__ import annotations

from typing import Any, Protocol

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from router.native.compiler import I64


class OfWord(Protocol):
    """A function of a word of 64 bits (int64)."""

    def __call__(self, word: I64) -> I64: ...


def _trailing_zeros() -> OfWord:
    def count(_typing: Any, word: Any) -> Any:  # noqa: ARG001 - Numba minds the names
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.int64), generate

    finder: OfWord = intrinsic(count)
    return finder


def _without_lowest() -> OfWord:
    # Python's operators on int64 would overflow for the word whose only bit is the sign.
    def clear(_typing: Any, word: Any) -> Any:  # noqa: ARG001
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            less = builder.sub(arguments[0], ir.Constant(ir.IntType(64), 1))
            return builder.and_(arguments[0], less)

        return types.int64(types.int64), generate

    clearer: OfWord = intrinsic(clear)
    return clearer


#: The position of the lowest bit that is set; undefined for 0.
trailing_zeros = _trailing_zeros()
#: The word without the lowest bit that is set.
without_lowest = _without_lowest()
