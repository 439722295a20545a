"""Words of rows, read and written by address; bits of words.

Loops over the words of a row become vector instructions: LLVM follows the address of an element of an array,
but not a number that is turned into an address (`router.native.memory`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from router.native.compiler import I64
from router.native.memory import Reader, Writer

_WORD = ir.IntType(64)
#: Bits and bytes of a word.
WORD_BITS, WORD_BYTES = 64, 8


def _element(builder: Any, address: Any, index: Any) -> Any:
    return builder.gep(builder.inttoptr(address, _WORD.as_pointer()), [index])


def _word_at(_typing: Any, address: Any, index: Any) -> Any:  # noqa: ARG001 - Numba minds the names
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load(_element(builder, *arguments), align=8)

    return types.int64(types.int64, types.int64), generate


def _put_word(_typing: Any, address: Any, index: Any, value: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        address, index, value = arguments
        builder.store(value, _element(builder, address, index), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _ones(_typing: Any, item: Any) -> Any:  # noqa: ARG001
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


def _lowest(_typing: Any, item: Any) -> Any:  # noqa: ARG001
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


#: Reads a word of a row, and writes one.
word_at: Reader = intrinsic(_word_at)
put_word: Writer = intrinsic(_put_word)
#: The number of bits of a word that are set.
ones: Callable[[I64], I64] = intrinsic(_ones)
#: The number of the lowest bit that is set, of a word that is not 0.
lowest: Callable[[I64], I64] = intrinsic(_lowest)
