"""Functions that run the system's tools, with many steps in one process where the tool permits."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence

from testbed.support.errors import RunError


def run(argv: Sequence[str], stdin: str | None = None, timeout_s: float = 120, check: bool = True) -> str:
    """Runs a command and returns its standard output.

    Raises:
        RunError: the command failed and `check` is true, or it took longer than `timeout_s`.
    """
    try:
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, timeout=timeout_s, start_new_session=True
        )
    except subprocess.TimeoutExpired as error:
        raise RunError(f"{argv[0]} did not end within {timeout_s:g} s") from error
    if check and done.returncode:
        raise RunError(f"{argv[0]} failed ({done.returncode}): {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def ip_batch(lines: Iterable[str]) -> None:
    """Runs `ip` commands, one a line, in one process.

    Raises:
        RunError: a command failed.
    """
    text = "".join(f"{line}\n" for line in lines)
    if text:
        run(["ip", "-batch", "-"], stdin=text)
