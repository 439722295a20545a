"""Literals of the Siena Fast Forwarding driver's language, as it writes them."""

from __future__ import annotations

import re

from router.predicates.model import Value

#: Words of the language that do not name an attribute without quotes.
RESERVED = frozenset({"any"})
#: Names that need no quotes.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def driver_name(name: str) -> str:
    """The attribute name, in quotes if it is not an identifier or is reserved."""
    return name if _NAME.fullmatch(name) and name not in RESERVED else _quote(name)


def driver_value(value: Value) -> str:
    """The value as a literal of its type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quote(value) if isinstance(value, str) else repr(value)


def _quote(text: str) -> str:
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    # Octal, because a hexadecimal escape of C goes on as long as digits follow.
    return f"\\{ord(character):03o}" if ord(character) < 0x80 and not character.isprintable() else character
