"""What the terminal shows while a command works: one line a stage, with its time when it is done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status


class Progress:
    """Stages of a run: a live line on a terminal; elsewhere, one line as each stage ends."""

    def __init__(self, console: Console) -> None:
        self.console = console
        #: Wall seconds of each stage so far, by its key.
        self.seconds: dict[str, float] = {}
        self._status: Status | None = None
        self._text = ""

    @contextmanager
    def stage(self, key: str, text: str) -> Iterator[None]:
        """Shows `text` while the block runs, and how long it took afterwards."""
        started = time.monotonic()
        with self.console.status(text) as status:
            self._status, self._text = status, text
            try:
                yield
            finally:
                self._status = None
        self.seconds[key] = time.monotonic() - started
        self.console.print(f"[green]✓[/] {text} [dim]{self.seconds[key]:.1f} s[/]", highlight=False)

    def update(self, text: str) -> None:
        """Adds detail to the line of the current stage."""
        if self._status is not None:
            self._status.update(f"{self._text}: {text}")

    def note(self, text: str) -> None:
        """Prints a line of its own."""
        self.console.print(text, highlight=False)
