"""Functions that run the system's tools, with many steps in one process where the tool permits."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence

from testbed.errors import RunError

#: Commands in one ovs-vsctl transaction: well inside the kernel's limit for arguments (2 MiB).
VSCTL_BATCH = 400


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


def ip_batch(lines: Iterable[str], force: bool = False) -> None:
    """Runs `ip` commands, one a line, in one process.

    With `force`, continues after a command that fails.
    """
    text = "".join(f"{line}\n" for line in lines)
    if text:
        run(["ip", *(["-force"] if force else []), "-batch", "-"], stdin=text, check=not force)


def vsctl(commands: Sequence[Sequence[str]], timeout_s: int = 120, wait: bool = True) -> None:
    """Runs ovs-vsctl commands in as few transactions as fit on a command line.

    Args:
        wait: wait until ovs-vswitchd has applied the changes of the database.
    """
    for start in range(0, len(commands), VSCTL_BATCH):
        argv = ["ovs-vsctl", f"--timeout={timeout_s}", *([] if wait else ["--no-wait"])]
        for command in commands[start : start + VSCTL_BATCH]:
            argv += ["--", *command]
        run(argv, timeout_s=timeout_s + 5)
