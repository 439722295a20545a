"""The process of a command: its signals, its standard streams, and its children, apart from the terminal.

Also conditions that a run waits for, and the independent steps of a clean-up.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, ParamSpec, TypeVar

from router.system import start_module
from testbed.support.errors import RunError

P = ParamSpec("P")
T = TypeVar("T")


def wait_until(
    difference: Callable[[], str | None], timeout_s: float, what: str, interval_s: float = 0.02
) -> None:
    """Polls `difference` until it returns None.

    Args:
        difference: returns the remaining difference from the expected state, in words, or None.
        timeout_s: wall seconds to wait.
        what: the expected state in words, for the error.
        interval_s: wall seconds between polls.

    Raises:
        RunError: the deadline passed; the message has the last difference.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        left = difference()
        if left is None:
            return
        if time.monotonic() >= deadline:
            raise RunError(f"{what}: not after {timeout_s:g} s; {left}")
        time.sleep(interval_s)


class Steps:
    """Runs every step, whether or not other steps fail, and collects the failures.

    Attributes:
        failures: a sentence for each step that failed, in order.
    """

    def __init__(self) -> None:
        self.failures: list[str] = []

    def run(self, name: str, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Runs a step and returns its result, or None if it failed.

        An exception becomes a failure, and the caller continues with the next step.

        KeyboardInterrupt and SystemExit are not caught.
        """
        try:
            return step(*args, **kwargs)
        except Exception as error:
            said = str(error) or type(error).__name__
            self.failures.append(f"{name}: {said}")
            return None

    def check(self, kind: type[RunError] = RunError) -> None:
        """Raises a RunError with all failures, if there is one; to be called after the last step."""
        if self.failures:
            raise kind("; ".join(self.failures))


def last_line(*logs: Path) -> str:
    """Returns the last line of some logs, in which a process that has ended gives the reason."""
    lines = [
        line for log in logs if log.exists() for line in log.read_text(errors="replace").strip().splitlines()
    ]
    return lines[-1] if lines else "it said nothing"


#: Signals that end a command.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Wall seconds in which a process must end after SIGTERM.
_STOP_TIMEOUT_S = 20.0
#: NumPy's library of linear algebra, which no part calls, starts a thread for each processor: 50 ms of work.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}


class Child:
    """A Python module run as a child process in its own session, which the terminal's Ctrl-C does not reach.

    Args:
        what: name of the process in errors.
        module, arguments: `python -m module arguments...`.
        output: file for its standard error and standard output (None: standard output is a pipe, `stdout`).
    """

    def __init__(
        self, what: str, module: str, arguments: list[str], errors: Path, output: Path | None
    ) -> None:
        self.what = what
        self._errors = errors
        with errors.open("ab") as stderr:
            stdout: IO[bytes] | int = output.open("ab") if output is not None else subprocess.PIPE
            self.process = start_module(
                module,
                *arguments,
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                env={**os.environ, **_ENVIRONMENT},
            )
            if not isinstance(stdout, int):
                stdout.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    def write_line(self, text: str) -> None:
        assert self.process.stdin is not None
        # A process that has ended is found by `check`.
        with suppress(BrokenPipeError):
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()

    def check(self) -> None:
        """Raises RunError if the process has ended."""
        status = self.process.poll()
        if status is not None:
            raise RunError(f"{self.what} ended with status {status}: {last_line(self._errors)}")

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Sends SIGTERM and waits for the end, at most `timeout_s` wall seconds.

        Raises RunError if the process had to be killed or failed.
        """
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise RunError(f"{self.what} did not end {timeout_s:g} s after SIGTERM") from error
        if status not in (0, -signal.SIGTERM):
            raise RunError(f"{self.what} ended with status {status}: {last_line(self._errors)}")

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()


def end_like_ctrl_c() -> None:
    """Makes SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt: everything is cleaned up as after Ctrl-C.

    An ignored SIGTERM or SIGHUP stays ignored: `nohup` ignores SIGHUP for the process that it starts. A shell
    makes the background jobs of a script ignore SIGINT; a run has to end by that signal all the same.
    """
    signal.signal(signal.SIGINT, _interrupt)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def find_administration() -> None:
    """Adds the folders of ip, tc and nft to PATH, which `su` without a dash takes from the user."""
    folders = ("/usr/local/sbin", "/usr/sbin", "/sbin")
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), *folders])


def leave_closed_terminal() -> None:
    """Drops what is printed to a terminal that was closed (SIGHUP), where writing would be an error."""
    for descriptor in range(3):
        try:
            termios.tcgetattr(descriptor)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    leave_closed_terminal()
    raise KeyboardInterrupt


def open_closed_streams() -> None:
    """Opens /dev/null in place of standard streams that were closed before the command began (`>&-`).

    Python has None for a stream that is closed, and the next file that is opened takes its number: what a
    child prints would go there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        null = os.open(os.devnull, os.O_RDWR)
        if null == number:
            os.set_inheritable(null, True)
        else:
            os.dup2(null, number)
            os.close(null)
        setattr(sys, name, os.fdopen(number, "w" if number else "r"))
