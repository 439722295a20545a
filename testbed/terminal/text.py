"""Foreign text in tables and status lines of rich."""

from __future__ import annotations

from rich.text import Text

from testbed.terminal.printable import printable_lines


def foreign(text: object, style: str = "") -> Text:
    """Returns the text without control characters, and without a meaning of its markup for rich."""
    return Text(printable_lines(str(text)), style=style)
