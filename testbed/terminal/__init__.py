"""Text and errors that commands print, without the control characters that a terminal would execute.

Commands print through `put`, and show text in tables and status lines of rich through `foreign`: names,
values and errors may come from a file of somebody else.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import IO, TYPE_CHECKING

from testbed.support.errors import FULL, BringUpInterrupted, InputError, exit_status

if TYPE_CHECKING:
    from rich.text import Text

INTERRUPTED = 130
#: Faults of a path that the user gave, or of the rights on it.
_PATH_ERRORS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}
)


def printable(text: str) -> str:
    """Returns the text, with the Python escape of each character that does not print, such as `\\x1b`."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def printable_lines(text: str) -> str:
    """Returns the text, each of its lines as `printable` returns it."""
    return "\n".join(map(printable, text.split("\n")))


def put(text: object = "", *, file: IO[str] | None = None, flush: bool = False) -> None:
    """Prints a text of one or more lines, each as `printable` returns it.

    Args:
        file: None: standard output.
    """
    print(printable_lines(str(text)), file=file, flush=flush)


def foreign(text: object, style: str = "") -> Text:
    """Returns the text for rich, without control characters, and without a meaning of its markup."""
    from rich.text import Text

    return Text(printable_lines(str(text)), style=style)


def reported(command: Callable[[], int]) -> int:
    """Returns the exit status of a command; prints its error in one line."""
    try:
        return command()
    except KeyboardInterrupt as interrupt:
        put(f"cbcb: {str(interrupt) or 'interrupted'}", file=sys.stderr)
        return interrupt.status if isinstance(interrupt, BringUpInterrupted) else INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has ended
        return 0
    except OSError as error:
        if error.errno in _PATH_ERRORS and error.filename is not None:
            put(f"cbcb: {error.filename}: {error.strerror}", file=sys.stderr)
            return InputError.status
        if error.errno not in FULL:
            raise
        try:
            sys.stdout.flush()
        except OSError:  # or the interpreter would try once more when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        put(f"cbcb: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return 3
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] in {"testbed", "router", "topos", "captures"}:
            raise
        put(
            f"cbcb: {sys.executable} has no module {error.name}: wrong interpreter? "
            "`./run.sh` makes the right one (.venv/bin/cbcb)",
            file=sys.stderr,
        )
        return 3
    except Exception as error:
        if (status := exit_status(error)) is None:
            raise
        put(f"cbcb: {error}", file=sys.stderr)
        return status
