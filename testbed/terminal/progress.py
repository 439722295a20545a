"""Progress of a command on the terminal: one line for each stage, with its duration once it has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.status import Status
from rich.text import Text


class Progress:
    """The stages of a run: a live line on a terminal; otherwise, one line at the end of each stage.

    Texts are shown literally: a `[` in a path is no markup.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        #: Wall seconds of each stage so far, by its key.
        self.seconds: dict[str, float] = {}
        self._status: Status | None = None
        self._text = ""
        self._detail = ""
        self._panel: RenderableType | None = None

    @contextmanager
    def stage(self, key: str, text: str) -> Iterator[None]:
        """Shows `text` while the block runs, and afterwards its duration."""
        started = time.monotonic()
        with self.console.status(Text(text), refresh_per_second=8) as status:
            self._status, self._text, self._detail = status, text, ""
            self._show()
            try:
                yield
            finally:
                self._status = None
        self.seconds[key] = time.monotonic() - started
        line = Text.assemble(("✓", "green"), f" {text} ", (f"{self.seconds[key]:.1f} s", "dim"))
        self.console.print(line, soft_wrap=True)

    def update(self, text: str) -> None:
        """Adds detail to the line of the current stage."""
        self._detail = text
        self._show()

    def show_panel(self, panel: RenderableType | None) -> None:
        """Shows a panel below the line of the current stage, on a terminal.

        Any thread may call this method.
        """
        self._panel = panel
        self._show()

    def note(self, text: str) -> None:
        """Prints a separate line."""
        self.console.print(Text(text), soft_wrap=True)

    def _show(self) -> None:
        status = self._status
        if status is not None:
            line = Text(f"{self._text}: {self._detail}" if self._detail else self._text)
            status.update(line if self._panel is None else Group(line, self._panel))
