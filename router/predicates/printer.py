"""Text and JSON forms of predicates and messages.

The text is the readable notation of `router.predicates.parser` on one line; parsing it gives the same
value again. The JSON form is that of the logs (docs/reference/run-folder.md): a list of filters, each a list
of constraints ``[name, type, operator, value]``; the value of `any` is null.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from router.predicates import SYMBOLS, Constraint, Filter, Message, Predicate, Type, Value
from router.predicates.lexer import KEYWORDS, NAME_PATTERN

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
#: Code points below which the way a character is written is kept.
_KEPT = 0x3000
_TYPES = {kind.name.lower(): kind for kind in Type}
_OPERATORS = {symbol: operator for operator, symbol in SYMBOLS.items()}


def format_predicate(predicate: Predicate, filter_text: Callable[[Filter], str] | None = None) -> str:
    """The predicate in the readable notation (`none` if it has no filters); a note, if it cannot be read.

    Args:
        filter_text: formats a filter; None: `format_filter`.
    """
    if predicate.unreadable is not None:
        return predicate.unreadable
    return " or ".join(map(filter_text or format_filter, predicate)) if predicate else "none"


def format_filter(filter_: Filter) -> str:
    """The filter in the readable notation (`*` if it has no constraints)."""
    return " and ".join(map(format_constraint, filter_)) if len(filter_) else "*"


def format_constraint(constraint: Constraint) -> str:
    """The constraint in the readable notation."""
    name = format_name(constraint.name)
    if constraint.value is None:
        return f"{name} any {constraint.type.name.lower()}"
    return f"{name} {SYMBOLS[constraint.operator]} {format_value(constraint.value)}"


def format_message(message: Message) -> str:
    """The message in the readable notation, attributes in their order (`[]` if it has none).

    A note, if it cannot be read.
    """
    if message.unreadable is not None:
        return message.unreadable
    attributes = [f"{format_name(name)} = {format_value(value)}" for name, value in message.items()]
    return ", ".join(attributes) if attributes else "[]"


def format_name(name: str) -> str:
    """The attribute name, in quotes if it is not an identifier or is a keyword."""
    return name if NAME_PATTERN.fullmatch(name) and name not in KEYWORDS else _quote(name)


def format_value(value: Value) -> str:
    """The value as a literal of its type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quote(value) if isinstance(value, str) else repr(value)


class _Escaped(dict[int, str]):
    """Code point -> how the character is written; those of most texts are kept."""

    def __missing__(self, code: int) -> str:
        written = _escape(chr(code))
        if code < _KEPT:
            self[code] = written
        return written


_ESCAPED = _Escaped()


def _quote(text: str) -> str:
    return '"' + text.translate(_ESCAPED) + '"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def predicate_to_json(predicate: Predicate) -> list[list[list[Value | None]]]:
    """The predicate as JSON data: ``[[[name, type, operator, value], ...], ...]``."""
    return [
        [[c.name, c.type.name.lower(), SYMBOLS[c.operator], c.value] for c in filter_]
        for filter_ in predicate
    ]


def predicate_from_json(data: object) -> Predicate:
    """The predicate that `predicate_to_json` made `data` of.

    A JSON integer is taken for a double where the type says so (other writers drop the point).

    Raises:
        ValueError: `data` is not of that form.
    """
    filters = msgspec.convert(data, list[list[tuple[str, str, str, Value | None]]])
    return Predicate(tuple(Filter(tuple(_constraint(*each) for each in filter_)) for filter_ in filters))


def _constraint(name: str, type_name: str, symbol: str, value: Value | None) -> Constraint:
    if type_name not in _TYPES or symbol not in _OPERATORS:
        raise ValueError(
            f"{name}: {type_name!r}, {symbol!r}; expected a type of {', '.join(_TYPES)}, and an operator of "
            f"{' '.join(_OPERATORS)}"
        )
    kind = _TYPES[type_name]
    return Constraint(
        name, kind, _OPERATORS[symbol], float(value) if kind is Type.DOUBLE and type(value) is int else value
    )
