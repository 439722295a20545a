"""Child processes of a command: started apart from the terminal, checked, stopped."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import IO

from router.children import start_module
from testbed.errors import RunError

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
        """Writes a line to the standard input of the process."""
        assert self.process.stdin is not None
        # A process that has ended is found by `check`.
        with suppress(BrokenPipeError):
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()

    def check(self) -> None:
        """Raises RunError if the process has ended."""
        status = self.process.poll()
        if status is not None:
            raise RunError(f"{self.what} ended with status {status}: {self._last_words()}")

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
            raise RunError(f"{self.what} ended with status {status}: {self._last_words()}")

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()

    def _last_words(self) -> str:
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"
