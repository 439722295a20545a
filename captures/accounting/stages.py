"""The stages of an accounting: which goes on, how many are done, and how long each took."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from captures.rundir.measures import Accounting, StageTime

#: The most stages that a line of progress names.
_NAMED = 3


class Stages:
    """Collects the stages of one accounting, which run in several threads.

    Args:
        progress: takes a line of progress whenever a stage begins or ends, in any thread.
        expected: number of the stages.
    """

    def __init__(self, progress: Callable[[str], None] | None = None, expected: int = 0) -> None:
        self.expected = expected
        self._progress = progress
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._going: list[str] = []
        #: When each stage began, not rounded, and the stage.
        self._done: list[tuple[float, StageTime]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A stage, as long as the block runs."""
        began = time.monotonic()
        self._change(began=name)
        try:
            yield
        finally:
            seconds = time.monotonic() - began
            done = StageTime(name=name, began_s=round(began - self._started, 3), seconds=round(seconds, 3))
            self._change(ended=(began, done))

    def _change(self, began: str | None = None, ended: tuple[float, StageTime] | None = None) -> None:
        with self._lock:
            if began is not None:
                self._going.append(began)
            if ended is not None:
                self._going.remove(ended[1]["name"])
                self._done.append(ended)
            count = max(self.expected, len(self._done) + len(self._going))
            names = ", ".join(self._going[:_NAMED]) + (", ..." if len(self._going) > _NAMED else "")
            line = f"{len(self._done)} of {count} stages" + (f"; {names}" if names else "")
            # Within the lock, so that the lines come in order.
            if self._progress is not None:
                self._progress(line)

    def record(self, engine: str, master: str | None) -> Accounting:
        """The stages that have ended, for the run folder."""
        with self._lock:
            return Accounting(
                engine=engine,
                master=master,
                seconds=round(time.monotonic() - self._started, 3),
                stages=[stage for _, stage in sorted(self._done, key=lambda done: done[0])],
            )
