"""The log of a process of the run: reads events as they are written, and waits for an event."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from captures.rundir.files import Follower, parsed
from testbed.support.steps import wait_until

Event = Mapping[str, Any]


class ProcessLog:
    """Reads the events of a log as they are written.

    Args:
        path: the log, JSON lines; it need not exist yet.
        check: called between reads; raises if the writer has died.

    Attributes:
        events: the events read so far.
    """

    def __init__(self, path: Path, check: Callable[[], None]) -> None:
        self._follower = Follower(path, partial(parsed, dict[str, Any]))
        self._check = check
        self.events: list[Event] = []

    def read(self) -> None:
        """Reads the events that were written since the last call; only whole lines."""
        self.events += self._follower.read()

    def since(self, position: int) -> list[Event]:
        """Reads the log and returns the events from a position on.

        Each reader keeps its own position.
        """
        self.read()
        return self.events[position:]

    def wait_for(
        self,
        matches: Callable[[Event], bool],
        timeout_s: float,
        what: str,
        check: Callable[[], None] | None = None,
    ) -> Event:
        """Returns the first event, past or future, for which `matches` is true.

        Args:
            timeout_s: wall seconds to wait.
            what: the expected event in words, for the error.
            check: called between reads as well; raises if the event can no longer occur.

        Raises:
            RunError: no such event was written in time; the message has the last event.
        """
        found: list[Event] = []
        seen = 0

        def left() -> str | None:
            nonlocal seen
            self._check()
            if check is not None:
                check()
            self.read()
            found.extend(event for event in self.events[seen:] if matches(event))
            seen = len(self.events)
            if found:
                return None
            return f"last event: {json.dumps(self.events[-1])}" if self.events else "no event yet"

        wait_until(left, timeout_s, what)
        return found[0]
