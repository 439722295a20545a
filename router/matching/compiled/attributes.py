"""The body of a MSG read by compiled code: checked as `router.wire.tlv.decode_message` checks it.

Layout: docs/wire-format.md. What is out of the ordinary (an error, a TLV of a later version, more than
`FEW` attributes) is left to that function, which names the error, or finds that there is none.
"""

# ruff: noqa: ANN001, ANN202
from __future__ import annotations

import numpy as np

from router.matching.compiled.compiler import inlined
from router.matching.compiled.hashing import EMPTY, extended, mixed
from router.matching.compiled.layout import BOOLEAN, DOUBLE, INTEGER, STRING
from router.matching.compiled.normal import key_of_double, key_of_text
from router.matching.compiled.segment import NAME_HASH, STRING_HASH
from router.predicates.model import STRING_MAX_BYTES
from router.wire.tlv import TLV_HEADER_LENGTH, Tlv

#: Columns of an attribute's row (int64 [ATTRIBUTE_WIDTH]): of the name, the polynomial, offset and length in the
#: body, and the hash of name and type; of the value, type, offset, length, key and, for strings, the hash.
(NAME, NAME_AT, NAME_LENGTH, NAMED, TYPE, AT, LENGTH, KEY, HASH) = range(9)
#: Of a segment: slot, and number of the string.
SLOT, TEXT = 9, 10
ATTRIBUTE_WIDTH = 12
#: Attributes whose names are compared with each other.
FEW = 64
#: Instead of a number of attributes: it needs another look; it has more attributes than there are rows.
UNUSUAL, NO_ROOM = -1, -2

_ATTRIBUTE = int(Tlv.ATTRIBUTE)
_BYTE = np.uint64(8)
_INFINITE = 0x7FF0000000000000


@inlined
def read_attributes(body, rows, polynomials, trusted):  # type: ignore[no-untyped-def]
    """Fills the rows; returns the number of attributes, `UNUSUAL` or `NO_ROOM`.

    Args:
        body: uint8 [n].
        rows: int64 [attributes, ATTRIBUTE_WIDTH].
        polynomials: uint64 [n + 1]; polynomials[at + k] becomes that of the first k bytes of the string at `at`.
        trusted: 1 if the body was found to keep the format's rules, 0 to check them.
    """
    count = 0
    at = 0
    size = len(body)
    while at < size:
        start = at + TLV_HEADER_LENGTH
        if start > size:
            return UNUSUAL
        end = start + _number(body, at + 1, 4)
        if end > size:
            return UNUSUAL
        kind = body[at]
        at = end
        if kind != _ATTRIBUTE:
            if trusted:
                continue
            return UNUSUAL
        name = start + 1
        value = name + body[start]
        if value == name or value >= end:
            return UNUSUAL
        if count == len(rows):
            return NO_ROOM
        row = rows[count]
        polynomial, high = EMPTY, 0
        for position in range(name, value):
            polynomial = extended(polynomial, body[position])
            high |= body[position]
        row[NAME], row[NAME_AT], row[NAME_LENGTH] = np.int64(polynomial), name, value - name
        row[TYPE], row[AT], row[LENGTH] = body[value], value + 1, end - value - 1
        row[NAMED] = mixed(polynomial, value - name, NAME_HASH - row[TYPE])
        if not _read_value(body, row, polynomials):
            return UNUSUAL
        if not trusted and (
            (high >= 0x80 and not _is_utf8(body, name, value)) or not _new_name(body, rows, count)
        ):
            return UNUSUAL
        count += 1
    return count


@inlined
def _number(body, at, size):  # type: ignore[no-untyped-def]
    """An integer in network byte order; one of eight bytes is signed."""
    value = np.uint64(0)
    for position in range(at, at + size):
        value = value << _BYTE | np.uint64(body[position])
    return np.int64(value)


@inlined
def _read_value(body, row, polynomials):  # type: ignore[no-untyped-def]
    """Fills in key and hash; False if the value is none of its type."""
    kind, at, length = row[TYPE], row[AT], row[LENGTH]
    if kind == STRING:
        if length > STRING_MAX_BYTES:
            return False
        polynomial, high = EMPTY, 0
        polynomials[at] = EMPTY
        for position in range(at, at + length):
            high |= body[position]
            polynomial = extended(polynomial, body[position])
            polynomials[position + 1] = polynomial
        row[KEY] = key_of_text(body, at, at + length)
        row[HASH] = mixed(polynomial, length, STRING_HASH)
        return high < 0x80 or _is_utf8(body, at, at + length)
    if kind == INTEGER:
        if length != 8:
            return False
        row[KEY] = _number(body, at, 8)
        return True
    if kind == DOUBLE:
        if length != 8:
            return False
        bits = _number(body, at, 8)
        row[KEY] = key_of_double(bits)
        return (bits & _INFINITE) != _INFINITE
    if kind == BOOLEAN:
        row[KEY] = body[at]
        return length == 1 and body[at] <= 1
    return False


@inlined
def _new_name(body, rows, count):  # type: ignore[no-untyped-def]
    """Whether attribute `count` has another name than those before it."""
    if count >= FEW:
        return False
    row = rows[count]
    for other in range(count):
        if rows[other, NAME] == row[NAME] and rows[other, NAME_LENGTH] == row[NAME_LENGTH]:
            return False
    return True


@inlined
def _is_utf8(body, at, end):  # type: ignore[no-untyped-def]
    """Whether body[at:end] is UTF-8: RFC 3629, section 4."""
    while at < end:
        lead = body[at]
        at += 1
        if lead < 0x80:
            continue
        lowest, highest = 0x80, 0xBF
        if 0xC2 <= lead <= 0xDF:
            following = 1
        elif 0xE0 <= lead <= 0xEF:
            following = 2
            if lead == 0xE0:
                lowest = 0xA0
            elif lead == 0xED:
                highest = 0x9F
        elif 0xF0 <= lead <= 0xF4:
            following = 3
            if lead == 0xF0:
                lowest = 0x90
            elif lead == 0xF4:
                highest = 0x8F
        else:
            return False
        if at + following > end:
            return False
        for position in range(at, at + following):
            if not lowest <= body[position] <= highest:
                return False
            lowest, highest = 0x80, 0xBF
        at += following
    return True


