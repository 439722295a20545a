"""Reading of the body of a MSG in compiled code, with the checks of `router.wire.message.decode_message`.

Layout: docs/reference/wire-format.md. TLVs of unknown types are skipped. A body with an error or with more
than `FEW` attributes is left to that function, which names the error, or finds that there is none.
"""

from __future__ import annotations

from router.matching.compiled import (
    AT,
    ATTRIBUTE_BYTES,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    KEY,
    LENGTH,
    NAME,
    NAME_AT,
    NAME_HASH,
    NAME_LENGTH,
    NAMED,
    STRING,
    TYPE,
    Search,
    base_of,
    callee,
    extended,
    mixed,
)
from router.matching.compiled.normal import key_of_double, key_of_text
from router.native import I64, Address, Flag, byte_at, is_text, load_u32, load_u64, long_at, put_long
from router.predicates import STRING_MAX_BYTES
from router.wire.format import Tlv
from router.wire.tlv import NEVER_SKIPPED, TLV_HEADER_LENGTH

#: The number of attributes whose names are compared with each other.
FEW = 64
#: Error code: the codec must read the body.
UNUSUAL = -1

_ATTRIBUTE = int(Tlv.ATTRIBUTE)
_INFINITE = 0x7FF0000000000000


@callee
def read_attributes(search: Address, body: Address, size: I64, trusted: I64) -> I64:
    """Fills the rows of a search; returns the number of attributes, or `UNUSUAL`.

    Args:
        search: the address of a row (`Search`) with space for a body of this size.
        body: the address of the body.
        size: the length of the body, in bytes.
        trusted: 1 if the body is known to follow the rules of the format, 0 to check it.
    """
    rows, polynomials = long_at(search, Search.ROWS), long_at(search, Search.POLYNOMIALS)
    seed = long_at(search, Search.SEED)
    base = base_of(seed)
    count, at = 0, 0
    while at < size:
        start = at + TLV_HEADER_LENGTH
        if start > size:
            return UNUSUAL
        end = start + load_u32(body + at + 1)
        if end > size:
            return UNUSUAL
        tlv = byte_at(body, at)
        at = end
        if tlv != _ATTRIBUTE:
            if not trusted and tlv in NEVER_SKIPPED:
                return UNUSUAL
            continue
        if end - start < 3:
            return UNUSUAL
        name = start + 1
        value = name + byte_at(body, start)
        if value == name or value >= end:
            return UNUSUAL
        row = rows + count * ATTRIBUTE_BYTES
        polynomial, high = 0, 0
        for position in range(name, value):
            byte = byte_at(body, position)
            polynomial = extended(polynomial, byte, base)
            high |= byte
        type_ = byte_at(body, value)
        put_long(row, NAME, polynomial)
        put_long(row, NAME_AT, name)
        put_long(row, NAME_LENGTH, value - name)
        put_long(row, NAMED, mixed(polynomial, value - name, NAME_HASH - type_, seed))
        put_long(row, TYPE, type_)
        put_long(row, AT, value + 1)
        put_long(row, LENGTH, end - value - 1)
        if not _read_value(row, body, type_, value + 1, end - value - 1, polynomials, seed):
            return UNUSUAL
        if not trusted and (
            (high >= 0x80 and not is_text(body + name, body + value)) or not _is_new(rows, count)
        ):
            return UNUSUAL
        count += 1
    return count


@callee
def _read_value(
    row: Address, body: Address, type_: I64, at: I64, length: I64, polynomials: Address, seed: Address
) -> Flag:
    """Fills in key and polynomials; False if the bytes are no value of the type."""
    if type_ == STRING:
        if length > STRING_MAX_BYTES:
            return False
        polynomial, high = 0, 0
        base = base_of(seed)
        put_long(polynomials, at, 0)
        for position in range(at, at + length):
            byte = byte_at(body, position)
            high |= byte
            polynomial = extended(polynomial, byte, base)
            put_long(polynomials, position + 1, polynomial)
        put_long(row, KEY, key_of_text(body + at, length))
        return high < 0x80 or is_text(body + at, body + at + length)
    if type_ == INTEGER and length == 8:
        put_long(row, KEY, load_u64(body + at))
        return True
    if type_ == DOUBLE and length == 8:
        bits = load_u64(body + at)
        put_long(row, KEY, key_of_double(bits))
        return (bits & _INFINITE) != _INFINITE
    if type_ == BOOLEAN and length == 1:
        put_long(row, KEY, byte_at(body, at))
        return byte_at(body, at) <= 1
    return False


@callee
def _is_new(rows: Address, count: I64) -> Flag:
    """Whether the name of attribute `count` differs from all earlier names, by their hashes."""
    if count >= FEW:
        return False
    row = rows + count * ATTRIBUTE_BYTES
    for number in range(count):
        other = rows + number * ATTRIBUTE_BYTES
        if long_at(other, NAME) == long_at(row, NAME) and long_at(other, NAME_LENGTH) == long_at(
            row, NAME_LENGTH
        ):
            return False
    return True
