"""Arrays by address, so that one argument passes a whole table to compiled code, and functions in C for it.

Each array among the arguments of a compiled function costs some 100 ns a call, and is passed on between
functions as seven numbers. A table is therefore passed as one number: the address of a row that contains the
addresses of its arrays. The caller keeps the arrays alive during the call. Nothing is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic

from router.native.compiler import I64, Address

#: Reads an element of an array as int64, given the address of the array and the index.
Reader = Callable[[Address, I64], I64]
#: Writes an element of an array, truncated to its width, given address, index and value.
Writer = Callable[[Address, I64, I64], None]
#: A function of a word of 64 bits (int64).
OfWord = Callable[[I64], I64]
_LONG = ir.IntType(64)


def _reader(bits: int, *, signed: bool) -> Reader:
    def read(_typing: Any, address: Any, index: Any) -> Any:  # noqa: ARG001 - Numba minds the names
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            item = builder.load(_pointer(builder, arguments, bits), align=1)
            if bits == 64:
                return item
            return (builder.sext if signed else builder.zext)(item, _LONG)

        return types.int64(types.int64, types.int64), generate

    reader: Reader = intrinsic(read)
    return reader


def _writer(bits: int) -> Writer:
    def write(_typing: Any, address: Any, index: Any, value: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            item = arguments[2] if bits == 64 else builder.trunc(arguments[2], ir.IntType(bits))
            builder.store(item, _pointer(builder, arguments, bits), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    writer: Writer = intrinsic(write)
    return writer


def _of_word(make: Callable[[Any, Any], Any]) -> OfWord:
    """A function of one int64, whose result `make` builds from the builder of the code and the argument."""

    def use(_typing: Any, word: Any) -> Any:  # noqa: ARG001
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return make(builder, arguments[0])

        return types.int64(types.int64), generate

    function: OfWord = intrinsic(use)
    return function


def _loader(bits: int) -> OfWord:
    def load(builder: Any, address: Any) -> Any:
        item = builder.load(builder.inttoptr(address, ir.IntType(bits).as_pointer()), align=1)
        return builder.zext(builder.bswap(item) if bits > 8 else item, _LONG)

    return _of_word(load)


def _pointer(builder: Any, arguments: Any, bits: int) -> Any:
    width = ir.Constant(_LONG, bits // 8)
    place = builder.add(arguments[0], builder.mul(arguments[1], width))
    return builder.inttoptr(place, ir.IntType(bits).as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def real_at(_typing: Any, address: Any, index: Any) -> Any:  # noqa: ARG001
    """Reads an element of an array of doubles, given address and index."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = builder.bitcast(_pointer(builder, arguments, 64), ir.DoubleType().as_pointer())
        return builder.load(pointer, align=1)

    return types.float64(types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_typing: Any, address: Any) -> Any:  # noqa: ARG001
    """Asks for the cache line of an address, which may be any, without waiting for it."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        octets, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [octets, number, number, number])
        hint = get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # For reading, into all levels of the cache, as data.
        mode = [ir.Constant(number, each) for each in (0, 3, 1)]
        builder.call(hint, [builder.inttoptr(arguments[0], octets), *mode])
        return context.get_dummy_value()

    return types.void(types.int64), generate


byte_at, short_at = _reader(8, signed=False), _reader(16, signed=False)
int_at, long_at = _reader(32, signed=True), _reader(64, signed=True)
put_byte, put_short = _writer(8), _writer(16)
put_int, put_long = _writer(32), _writer(64)
#: Reads the unsigned number in network byte order at an address.
load_u8, load_u16, load_u32, load_u64 = _loader(8), _loader(16), _loader(32), _loader(64)
#: The position of the lowest bit that is set; undefined for 0.
trailing_zeros = _of_word(lambda builder, word: builder.cttz(word, ir.Constant(ir.IntType(1), 1)))
#: The word without the lowest bit that is set. Python's operators on int64 would overflow for the word whose
#: only bit is the sign.
without_lowest = _of_word(lambda builder, word: builder.and_(word, builder.sub(word, ir.Constant(_LONG, 1))))


def address_of(array: npt.NDArray[np.generic]) -> int:
    """Returns the address of the elements of an array.

    Raises:
        ValueError: the array is not contiguous.
    """
    if not array.flags.c_contiguous:
        raise ValueError("expected a contiguous array")
    # Several times faster than `ctypes`; a small table has some thirty arrays.
    return int(array.__array_interface__["data"][0])


# Functions of the C library: each is a symbol of the process, so that machine code that uses it can
# be stored.
_CALL = types.int32(types.int32, types.intp, types.uint32, types.int32, types.intp)

#: recvmmsg(2): descriptor, address of mmsghdr[], their number, flags, address of a timeout (0: none).
recvmmsg = types.ExternalFunction("recvmmsg", _CALL)
#: sendmmsg(2): descriptor, address of mmsghdr[], their number, flags.
sendmmsg = types.ExternalFunction("sendmmsg", types.int32(types.int32, types.intp, types.uint32, types.int32))
#: memcpy(3): target, source, bytes.
memcpy = types.ExternalFunction("memcpy", types.intp(types.intp, types.intp, types.intp))
#: clock_gettime(2): clock, address of a timespec.
clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.intp))
#: ioctl(2): descriptor, request, address.
ioctl = types.ExternalFunction("ioctl", types.int32(types.int32, types.uint64, types.intp))
