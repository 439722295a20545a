"""Compiled formatting of predicates: the text of `router.predicates.printer`, for the most frequent values.

Predicates with another value are left to the printer: texts with characters to escape or outside ASCII, and
doubles of more than four decimals or 15 digits. Tests hold both equal.

Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from captures.frames.body_checks import ANY, DOUBLE, FILTER, INTEGER, STRING
from captures.pcap.compiling import compiler
from router.native.memory import load_f64, load_u8, load_u16, load_u32, load_u64, put_byte
from router.predicates.lexer import KEYWORDS
from router.predicates.model import SYMBOLS, Type
from router.wire.tlv import TLV_HEADER_LENGTH

_AND, _OR, _TRUE, _FALSE, _NONE, _EVERY = b" and ", b" or ", b"true", b"false", b"none", b"*"
#: A constraint without its name and value is at most so long, with a connective before it.
_ROOM = 64
_LEAST_INTEGER = -(2**63)
_MOST_DIGITS = 1e15
_MOST_DECIMALS = 4


def _table(texts: dict[int, str]) -> Any:
    """Number -> its text with a space before and behind it, led by the length: shape (numbers, 16)."""
    table = np.zeros((max(texts) + 1, 16), np.uint8)
    for number, text in texts.items():
        raw = f" {text} ".encode()
        table[number, : len(raw) + 1] = (len(raw), *raw)
    return table


_SYMBOLS = _table({int(operator): symbol for operator, symbol in SYMBOLS.items()})
_ANY_OF = _table({int(kind): f"any {kind.name.lower()}" for kind in Type})
#: The keywords as numbers: their bytes in network order.
_KEYWORDS = tuple(sorted(int.from_bytes(word.encode(), "big") for word in KEYWORDS))
_LONGEST_KEYWORD = max(map(len, KEYWORDS))
#: Characters of a name without quotes, and of those its first character.
_IN_NAME = np.array([chr(code).isalnum() or chr(code) in "_.-" for code in range(128)] + [False] * 128)
_BEGINS_NAME = np.array([chr(code).isalpha() or chr(code) == "_" for code in range(128)] + [False] * 128)
_PLAIN = np.array([32 <= code < 127 and chr(code) not in '"\\' for code in range(256)])

callee = compiler().callee


@callee
def _put(out: int, to: int, text: bytes) -> int:
    for position in range(len(text)):
        put_byte(out, to + position, text[position])
    return to + len(text)


@callee
def _put_row(out: int, to: int, table: Any, number: int, less: int) -> int:
    """Writes a row of a table without its last `less` characters."""
    length: Any = np.int64(table[number, 0]) - less
    for position in range(length):
        put_byte(out, to + position, np.int64(table[number, position + 1]))
    end: int = to + length
    return end


@callee
def _needs_no_quotes(at: int, end: int) -> bool:
    if not _BEGINS_NAME[load_u8(at)]:
        return False
    word = 0
    for position in range(at, end):
        character = load_u8(position)
        if not _IN_NAME[character]:
            return False
        word = (word << 8 | character) & 0xFFFFFFFFFFFF
    return end - at > _LONGEST_KEYWORD or word not in _KEYWORDS


@callee
def _quoted(at: int, end: int, out: int, to: int) -> int:
    put_byte(out, to, 34)
    to += 1
    for position in range(at, end):
        character = load_u8(position)
        if not _PLAIN[character]:
            return -1
        put_byte(out, to, character)
        to += 1
    put_byte(out, to, 34)
    return to + 1


@callee
def _digits(number: int, least: int, out: int, to: int) -> int:
    """Writes a number that is not negative, with at least `least` digits."""
    count, rest = 1, number // 10
    while rest > 0 or count < least:
        rest //= 10
        count += 1
    rest = number
    for position in range(count):
        put_byte(out, to + count - 1 - position, 48 + rest % 10)
        rest //= 10
    return to + count


@callee
def _integer(value: int, out: int, to: int) -> int:
    if value == _LEAST_INTEGER:
        return -1
    if value < 0:
        put_byte(out, to, 45)
        return _digits(-value, 1, out, to + 1)
    return _digits(value, 1, out, to)


@callee
def _double(value: float, is_negative: bool, out: int, to: int) -> int:
    """Writes a double as `repr` does.

    A decimal number of at most 15 digits is the only one of its length that stands for its double, and a
    quotient of integers below 2**53 is rounded correctly: the first that equals the double is the shortest.
    """
    magnitude = -value if is_negative else value
    scale = 1.0
    for decimals in range(_MOST_DECIMALS + 1):
        digits = np.floor(magnitude * scale + 0.5)
        if digits >= _MOST_DIGITS:
            return -1
        if digits / scale == magnitude:
            if is_negative:
                put_byte(out, to, 45)
                to += 1
            unit: Any = np.int64(scale)
            number: Any = np.int64(digits)
            to = _digits(number // unit, 1, out, to)
            put_byte(out, to, 46)
            return _digits(number % unit, max(1, decimals), out, to + 1)
        scale *= 10.0
    return -1


@callee
def _value(at: int, end: int, value_type: int, out: int, to: int) -> int:
    if value_type == STRING:
        return _quoted(at, end, out, to)
    if value_type == INTEGER:
        return _integer(load_u64(at), out, to)
    if value_type == DOUBLE:
        return _double(load_f64(at), load_u8(at) >= 128, out, to)
    return _put(out, to, _TRUE) if load_u8(at) else _put(out, to, _FALSE)


@callee
def _constraint(at: int, value_type: int, value: int, end: int, out: int, to: int) -> int:
    """Writes the constraint whose name's length is at `at`."""
    if _needs_no_quotes(at + 1, value_type):
        for position in range(at + 1, value_type):
            put_byte(out, to, load_u8(position))
            to += 1
    else:
        to = _quoted(at + 1, value_type, out, to)
        if to < 0:
            return -1
    operator = load_u8(value_type + 1)
    if operator == ANY:
        return _put_row(out, to, _ANY_OF, load_u8(value_type), 1)
    to = _put_row(out, to, _SYMBOLS, operator, 0)
    return _value(value, end, load_u8(value_type), out, to)


@callee
def predicate_text(at: int, end: int, out: int, to: int, limit: int) -> int:
    """Writes the text of an accepted body (`is_predicate`) to out[to:limit].

    Returns where the text ends; -1: it is left to the printer.
    """
    begin = to
    while at < end:
        behind = at + TLV_HEADER_LENGTH + load_u32(at + 1)
        if load_u8(at) != FILTER:
            at = behind
            continue
        at += TLV_HEADER_LENGTH
        if limit - to < _ROOM:
            return -1
        if to > begin:
            to = _put(out, to, _OR)
        first = to
        if at == behind:
            to = _put(out, to, _EVERY)
        while at < behind:
            value_type = at + 1 + load_u8(at)
            value = value_type + 4
            last = value + load_u16(value_type + 2)
            if limit - to < last - at + _ROOM:
                return -1
            if to > first:
                to = _put(out, to, _AND)
            to = _constraint(at, value_type, value, last, out, to)
            if to < 0:
                return -1
            at = last
    if to == begin:
        if limit - to < _ROOM:
            return -1
        to = _put(out, to, _NONE)
    return to
