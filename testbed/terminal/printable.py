"""Text of others on a terminal: without the control characters that a terminal would obey."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text, with its Python escape in place of each character that does not print, such as `\\x1b`."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]
