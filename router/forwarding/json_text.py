"""The attributes of a message as JSON text in compiled code, as `json.dumps` writes them.

What is rare is left to that function: text that is not printable ASCII, and doubles that it writes with an
exponent.
"""

from __future__ import annotations

import numpy as np

from router.forwarding.compiler import callee
from router.matching.compiled.layout import (
    AT,
    ATTRIBUTE_BYTES,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    LENGTH,
    NAME_AT,
    NAME_LENGTH,
    TYPE,
    Search,
)
from router.native.compiler import I64, Address
from router.native.memory import byte_at, load_f64, load_u64, long_at, put_byte
from router.native.system import gcvt, strtod

_ROWS, _COUNT, _BODY = int(Search.ROWS), int(Search.COUNT), int(Search.BODY)
_TEN, _ZERO = np.uint64(10), np.uint64(0)
_QUOTE, _COLON, _COMMA, _BACKSLASH, _MINUS, _POINT = (ord(each) for each in '":,\\-.')
_0 = ord("0")
#: Printable ASCII, which stands for itself, but for quote and backslash.
_LEAST, _GREATEST = 0x20, 0x7E
_TRUE, _FALSE = (tuple(text) for text in (b"true", b"false"))
#: Doubles from the first on, below the second, are written without an exponent.
_FIXED_FROM, _FIXED_TO = 1e-4, 1e15
#: Significant digits that every decimal number keeps as a double, and that every double keeps as a decimal.
_DIGITS, _MOST_DIGITS = 15, 17


@callee
def put_attributes(search: Address, at: Address) -> Address:
    """Writes the attributes of the message that was searched last, without braces.

    Returns:
        The address behind them, or 0: they are left to `json.dumps`.
    """
    rows, body = long_at(search, _ROWS), long_at(search, _BODY)
    for number in range(long_at(search, _COUNT)):
        row = rows + number * ATTRIBUTE_BYTES
        if number:
            put_byte(at, 0, _COMMA)
            at += 1
        at = _put_string(body + long_at(row, NAME_AT), long_at(row, NAME_LENGTH), at)
        if at == 0:
            return 0
        put_byte(at, 0, _COLON)
        at = _put_value(row, body + long_at(row, AT), at + 1)
        if at == 0:
            return 0
    return at


@callee
def put_unsigned(value: I64, at: Address) -> Address:
    """Writes the decimal digits of an unsigned number of 64 bits; returns the address behind them."""
    left, digits = np.uint64(value), 1
    while left >= _TEN:
        left //= _TEN
        digits += 1
    left = np.uint64(value)
    for place in range(digits - 1, -1, -1):
        rest = left // _TEN
        put_byte(at, place, _0 + np.int64(left - rest * _TEN))
        left = rest
    return at + digits


@callee
def _put_value(row: Address, value: Address, at: Address) -> Address:
    type_ = long_at(row, TYPE)
    if type_ == INTEGER:
        number = load_u64(value)
        if number < 0:
            put_byte(at, 0, _MINUS)
            return put_unsigned(np.int64(_ZERO - np.uint64(number)), at + 1)
        return put_unsigned(number, at)
    if type_ == DOUBLE:
        return _put_double(load_f64(value), at)
    if type_ == BOOLEAN:
        if byte_at(value, 0):
            for place in range(4):
                put_byte(at, place, _TRUE[place])
            return at + 4
        for place in range(5):
            put_byte(at, place, _FALSE[place])
        return at + 5
    return _put_string(value, long_at(row, LENGTH), at)


@callee
def _put_double(value: I64, at: Address) -> Address:
    size = abs(value)
    if size >= _FIXED_TO or (size != 0.0 and size < _FIXED_FROM):
        return 0
    for digits in range(_DIGITS, _MOST_DIGITS + 1):
        gcvt(value, digits, at)
        if strtod(at, 0) == value:
            break
    whole = True
    while byte_at(at, 0):
        if byte_at(at, 0) == _POINT:
            whole = False
        at += 1
    if whole:
        put_byte(at, 0, _POINT)
        put_byte(at, 1, _0)
        at += 2
    return at


@callee
def _put_string(text: Address, length: I64, at: Address) -> Address:
    put_byte(at, 0, _QUOTE)
    at += 1
    for place in range(length):
        byte = byte_at(text, place)
        if byte < _LEAST or byte > _GREATEST:
            return 0
        if byte in (_QUOTE, _BACKSLASH):
            put_byte(at, 0, _BACKSLASH)
            at += 1
        put_byte(at, 0, byte)
        at += 1
    put_byte(at, 0, _QUOTE)
    return at + 1
