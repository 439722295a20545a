"""Foreign text on a terminal: without the control characters that a terminal would execute.

Commands print through `put`, and show text in tables and status lines of rich through
`testbed.terminal.text`: names, values and errors may come from a file of somebody else.
"""

from __future__ import annotations

from typing import IO


def printable(text: str) -> str:
    """Returns the text, with the Python escape of each character that does not print, such as `\\x1b`."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]


def printable_lines(text: str) -> str:
    """Returns the text, each of its lines as `printable` returns it."""
    return "\n".join(map(printable, text.split("\n")))


def put(text: object = "", *, file: IO[str] | None = None, flush: bool = False) -> None:
    """Prints a text of one or more lines, each as `printable` returns it.

    Args:
        file: None: standard output.
    """
    print(printable_lines(str(text)), file=file, flush=flush)
