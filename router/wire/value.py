"""Typed values of attributes and constraints: encoding and checked decoding."""

from __future__ import annotations

import struct
from math import isfinite

from router.predicates.model import STRING_MAX_BYTES, Type, Value
from router.wire.format import DecodeReason
from router.wire.header import DecodeError

INTEGER = struct.Struct("!q")
DOUBLE = struct.Struct("!d")
TYPES: dict[int, Type] = {int(type_): type_ for type_ in Type}
_STRING, _INTEGER, _DOUBLE, _BOOLEAN = (int(type_) for type_ in Type)


def encode_value(value: Value) -> bytes:
    """The bytes of a value, without its type."""
    if isinstance(value, bool):
        return b"\1" if value else b"\0"
    if isinstance(value, int):
        return INTEGER.pack(value)
    if isinstance(value, float):
        return DOUBLE.pack(value)
    return value.encode()


def decode_value(name: str, number: int, body: bytes, start: int, end: int) -> Value:
    """The value in body[start:end] of the type that has `number`; `name` is for the text of errors.

    Raises:
        DecodeError: no such type, or the bytes are no value of it (reason `bad_value`).
    """
    if number == _STRING:
        if end - start > STRING_MAX_BYTES:
            raise DecodeError(
                DecodeReason.BAD_VALUE, f"{name!r}: string of {end - start} bytes; at most {STRING_MAX_BYTES}"
            )
        try:
            return body[start:end].decode()
        except UnicodeDecodeError as error:
            raise bad_utf8(DecodeReason.BAD_VALUE, repr(name), error) from None
    if number == _INTEGER:
        if end - start == 8:
            integer: int = INTEGER.unpack_from(body, start)[0]
            return integer
    elif number == _DOUBLE:
        if end - start == 8:
            double: float = DOUBLE.unpack_from(body, start)[0]
            if not isfinite(double):
                raise DecodeError(DecodeReason.BAD_VALUE, f"{name!r}: double {double} is not finite")
            return double
    elif number == _BOOLEAN:
        if end - start == 1 and body[start] <= 1:
            return body[start] == 1
    else:
        raise unknown_type(name, number)
    raise DecodeError(
        DecodeReason.BAD_VALUE, f"{name!r}: {body[start:end][:9].hex()!r} is no {TYPES[number].name.lower()}"
    )


def unknown_type(name: str, number: int) -> DecodeError:
    """The error of a value type that does not exist."""
    return DecodeError(DecodeReason.BAD_VALUE, f"{name!r}: value type {number}; expected 1 to {len(TYPES)}")


def bad_utf8(reason: DecodeReason, subject: str, error: UnicodeDecodeError) -> DecodeError:
    """The error of a text that is not UTF-8."""
    return DecodeError(reason, f"{subject}: not UTF-8 at byte {error.start}: {error.reason}")
