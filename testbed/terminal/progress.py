"""Progress of a command on the terminal: one line for each stage, with its duration once it has ended."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.status import Status
from rich.text import Text

from testbed.terminal import foreign

#: Wall seconds between two lines about a stage that goes on, where the output is no terminal.
_SIGN_OF_LIFE_S = 10.0
#: Steps that took less are left out of the line of their stage.
_WORTH_NAMING_S = 0.1


class Progress:
    """The stages of a run: a live line on a terminal; otherwise, one line at the end of each stage.

    Texts are shown literally: a `[` in a path is no markup.

    Args:
        console: None: nothing is shown.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(quiet=True)
        #: Wall seconds of each stage so far, by its key.
        self.seconds: dict[str, float] = {}
        self._status: Status | None = None
        self._text = ""
        self._detail = ""
        self._panel: RenderableType | None = None
        self._steps: defaultdict[str, float] = defaultdict(float)
        self.current_step = ""
        self._step_started = self._shown_at = 0.0

    @contextmanager
    def stage(self, key: str, text: str) -> Iterator[None]:
        """Shows `text` while the block runs, and afterwards its duration."""
        started = time.monotonic()
        with self.console.status(foreign(text), refresh_per_second=8) as status:
            self._status, self._text, self._detail = status, text, ""
            self._steps.clear()
            self.current_step, self._step_started, self._shown_at = "", started, started
            self._show()
            try:
                yield
            finally:
                self._status = None
        self._end_step()
        self.seconds[key] = time.monotonic() - started
        parts = [f"{name} {s:.1f}" for name, s in self._steps.items() if s >= _WORTH_NAMING_S]
        detail = f" ({', '.join(parts)})" if parts else ""
        line = Text.assemble(
            ("✓", "green"), " ", foreign(text), " ", (f"{self.seconds[key]:.1f} s{detail}", "dim")
        )
        self.console.print(line, soft_wrap=True)

    def step(self, name: str) -> None:
        """Begins a step of the current stage, whose line will name its duration."""
        self._end_step()
        self.current_step = name
        self.update(name)

    def _end_step(self) -> None:
        now = time.monotonic()
        if self.current_step:
            self._steps[self.current_step] += now - self._step_started
        self.current_step, self._step_started = "", now

    def update(self, text: str) -> None:
        """Adds detail to the line of the current stage.

        Where the output is no terminal, a stage that takes long prints a line now and then.
        """
        self._detail = text
        self._show()
        now = time.monotonic()
        if not self.console.is_terminal and now - self._shown_at >= _SIGN_OF_LIFE_S:
            self._shown_at = now
            self.note(f"… {self._text}: {text}")

    def show_panel(self, panel: RenderableType | None) -> None:
        """Shows a panel below the line of the current stage, on a terminal.

        Any thread may call this method.
        """
        self._panel = panel
        self._show()

    def note(self, text: str) -> None:
        """Prints a separate line."""
        self.console.print(foreign(text), soft_wrap=True)

    def _show(self) -> None:
        status = self._status
        if status is not None:
            line = foreign(f"{self._text}: {self._detail}" if self._detail else self._text)
            status.update(line if self._panel is None else Group(line, self._panel))
