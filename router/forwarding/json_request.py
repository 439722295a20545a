"""A request to send a message, read by compiled code: its JSON text to the body of a MSG.

Takes the form that `router.runtime.client` writes: ``{"id":1,"op":"send_message","attributes":{...}}``,
without blanks, in printable ASCII without escapes. Any other request is left to Python code.
"""

from __future__ import annotations

import numpy as np

from router.forwarding.compiler import callee
from router.matching.compiled.layout import BOOLEAN, DOUBLE, INTEGER, STRING
from router.native.compiler import I64, Address, Tuple
from router.native.memory import byte_at, long_at, put_byte, put_real
from router.native.system import memcmp, memcpy, strtod
from router.predicates.model import NAME_MAX_BYTES, STRING_MAX_BYTES
from router.wire.format import Tlv
from router.wire.tlv import TLV_HEADER_LENGTH

#: Parts of a request.
REQUEST = (b'{"id":', b',"op":"send_message","attributes":{', b"true", b"false")
_LENGTHS = tuple(map(len, REQUEST))
_PLACES = tuple(sum(_LENGTHS[:number]) for number in range(len(REQUEST)))
_ID, _MESSAGE, _TRUE, _FALSE = range(4)
_QUOTE, _COLON, _COMMA, _BACKSLASH, _MINUS, _PLUS, _POINT, _BRACE = (ord(each) for each in '":,\\-+.}')
_0, _9, _SMALL_E, _LARGE_E = (ord(each) for each in "09eE")
_LEAST, _GREATEST = 0x20, 0x7E
#: Digits of an integer that 64 bits hold, whatever they are.
_DIGITS = 18
_ATTRIBUTE = int(Tlv.ATTRIBUTE)
#: Bytes of an attribute beyond name and value: header, length of the name, type.
_OVERHEAD = TLV_HEADER_LENGTH + 2
_NUMBER_BYTES = 8


@callee
def read_request(texts: Address, at: Address, end: Address, body: Address, room: I64) -> Tuple:
    """Reads a request and writes the body of its message.

    Args:
        texts: the address of the bytes of `REQUEST`.
        at, end: addresses of the request and of its line feed.
        body, room: address and bytes of room of the body.

    Returns:
        The bytes of the body, or 0: the request is Python code's. The digits of the request's number, behind
        the first part of `REQUEST`.
    """
    if not _is(texts, _ID, at, end):
        return 0, 0
    at += _LENGTHS[_ID]
    digits = _digits(at, end)
    if digits == 0 or digits > _DIGITS or (digits > 1 and byte_at(at, 0) == _0):
        return 0, 0
    at += digits
    if not _is(texts, _MESSAGE, at, end):
        return 0, 0
    at += _LENGTHS[_MESSAGE]
    length = 0
    while True:
        name = _string(at, end)
        if not 1 <= name <= NAME_MAX_BYTES or byte_at(at, name + 2) != _COLON:
            return 0, 0
        if length + _OVERHEAD + name + _NUMBER_BYTES > room:
            return 0, 0
        memcpy(body + length + TLV_HEADER_LENGTH + 1, at + 1, name)
        at += name + 3
        value = body + length + _OVERHEAD + name
        at, type_, size = _value(texts, at, end, value, room - length - _OVERHEAD - name)
        if at == 0:
            return 0, 0
        tlv = body + length
        put_byte(tlv, 0, _ATTRIBUTE)
        for place in range(4):
            put_byte(tlv, 1 + place, (2 + name + size) >> (24 - 8 * place))
        put_byte(tlv, TLV_HEADER_LENGTH, name)
        put_byte(value, -1, type_)
        length += _OVERHEAD + name + size
        separator = byte_at(at, 0)
        at += 1
        if separator == _BRACE:
            break
        if separator != _COMMA:
            return 0, 0
    if at + 1 != end or byte_at(at, 0) != _BRACE:
        return 0, 0
    return length, digits


@callee
def _is(texts: Address, number: I64, at: Address, end: Address) -> I64:
    """Whether a part of `REQUEST` is at an address."""
    size = _LENGTHS[number]
    return at + size < end and memcmp(at, texts + _PLACES[number], size) == 0


@callee
def _digits(at: Address, end: Address) -> I64:
    """The number of digits at an address."""
    count = 0
    while at + count < end and _0 <= byte_at(at, count) <= _9:
        count += 1
    return count


@callee
def _string(at: Address, end: Address) -> I64:
    """The length of the string, in quotes, at an address; -1: there is no plain one."""
    if at >= end or byte_at(at, 0) != _QUOTE:
        return -1
    length = 0
    while at + 1 + length < end:
        byte = byte_at(at + 1, length)
        if byte == _QUOTE:
            return length
        if byte < _LEAST or byte > _GREATEST or byte == _BACKSLASH:
            return -1
        length += 1
    return -1


@callee
def _value(texts: Address, at: Address, end: Address, value: Address, room: I64) -> Tuple:
    """Writes a value; returns the address behind its text (0: left to Python code), its type and length."""
    first = byte_at(at, 0)
    if first == _QUOTE:
        size = _string(at, end)
        if size < 0 or size > min(room, STRING_MAX_BYTES):
            return 0, 0, 0
        memcpy(value, at + 1, size)
        return at + size + 2, STRING, size
    if _is(texts, _TRUE, at, end):
        put_byte(value, 0, 1)
        return at + _LENGTHS[_TRUE], BOOLEAN, 1
    if _is(texts, _FALSE, at, end):
        put_byte(value, 0, 0)
        return at + _LENGTHS[_FALSE], BOOLEAN, 1
    return _number(at, end, value)


@callee
def _number(at: Address, end: Address, value: Address) -> Tuple:
    start = at
    negative = byte_at(at, 0) == _MINUS
    at += negative
    digits = _digits(at, end)
    if digits == 0 or (digits > 1 and byte_at(at, 0) == _0):
        return 0, 0, 0
    whole = at
    at += digits
    plain = True
    if byte_at(at, 0) == _POINT:
        plain = False
        fraction = _digits(at + 1, end)
        if fraction == 0:
            return 0, 0, 0
        at += 1 + fraction
    if byte_at(at, 0) == _SMALL_E or byte_at(at, 0) == _LARGE_E:
        plain = False
        at += 1
        at += byte_at(at, 0) == _PLUS or byte_at(at, 0) == _MINUS
        exponent = _digits(at, end)
        if exponent == 0:
            return 0, 0, 0
        at += exponent
    if not plain:
        number = strtod(start, 0)
        if not np.isfinite(number):
            return 0, 0, 0
        put_real(value, 0, number)
        _put_network(long_at(value, 0), value)
        return at, DOUBLE, _NUMBER_BYTES
    if digits > _DIGITS:
        return 0, 0, 0
    total = 0
    for place in range(digits):
        total = 10 * total + byte_at(whole, place) - _0
    _put_network(-total if negative else total, value)
    return at, INTEGER, _NUMBER_BYTES


@callee
def _put_network(number: I64, at: Address) -> None:
    """Writes the eight bytes of a number in network byte order."""
    for place in range(_NUMBER_BYTES):
        put_byte(at, place, number >> (56 - 8 * place))
