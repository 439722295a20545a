"""Canonical strings: unambiguous bytes for a statement about an attribute.

The slides write `name=value` and `∃name`. These bytes say also the type (an integer never matches a
constraint on a double) and the length of the name, so that no two statements have the same bytes: u8 kind, u8
type, u8 length of the name, name, and what the kind needs.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from router.predicates.model import Type, Value, type_of

_INTEGER = struct.Struct("!q")
_DOUBLE = struct.Struct("!d")

EQUAL = ord("=")
EXISTS = ord("E")
BUCKET = ord("B")
PREFIX = ord("P")
SUFFIX = ord("S")
GRAM = ord("G")


def statement(kind: int, type_: Type, name: str, rest: bytes = b"") -> bytes:
    """The canonical string of a statement of this kind about the attribute of this name and type."""
    return _head(kind, type_, name) + rest


@lru_cache(4096)
def _head(kind: int, type_: Type, name: str) -> bytes:
    encoded = name.encode()
    return bytes((kind, type_, len(encoded))) + encoded


def equal(name: str, value: Value) -> bytes:
    """The attribute has this value (the slides' `name=value`)."""
    return statement(EQUAL, type_of(value), name, value_bytes(value))


def exists(name: str, type_: Type) -> bytes:
    """The attribute exists, with this type (the slides' `∃name`)."""
    return statement(EXISTS, type_, name)


def equal_and_exists(name: str, value: Value) -> tuple[bytes, bytes]:
    """The strings of both statements, which every attribute of a message makes."""
    type_ = type_of(value)
    return _head(EQUAL, type_, name) + value_bytes(value), _head(EXISTS, type_, name)


def value_bytes(value: Value) -> bytes:
    """The bytes of a value, as on the wire; equal values have the same bytes: -0.0 is written as 0.0."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool):
        return b"\1" if value else b"\0"
    if isinstance(value, int):
        return _INTEGER.pack(value)
    return _DOUBLE.pack(value + 0.0)
