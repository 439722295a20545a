"""Foreign text on a terminal: without the control characters that a terminal would execute."""

from __future__ import annotations


def printable(text: str) -> str:
    """Returns the text, with the Python escape of each character that does not print, such as `\\x1b`."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]
