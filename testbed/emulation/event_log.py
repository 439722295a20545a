"""The log of a process of the run: its events as they come, and waiting for one of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from captures.rundir.follow import Follower
from testbed.polling import wait_until

Event = Mapping[str, Any]


class EventLog:
    """Reads the events of a log as they come.

    Args:
        path: the log, JSON lines; it need not exist yet.
        check: called between reads; raises if the writer has died.

    Attributes:
        events: the events read so far.
    """

    def __init__(self, path: Path, check: Callable[[], None]) -> None:
        self._follower = Follower(path, lambda _where, record: record)
        self._check = check
        self.events: list[Event] = []

    def read(self) -> None:
        """Takes the events that have come since the last call; only whole lines."""
        self.events += self._follower.read()

    def since(self, position: int) -> list[Event]:
        """Reads; the events from this position on. Whoever follows the log keeps its own place in it."""
        self.read()
        return self.events[position:]

    def wait_for(
        self,
        wanted: Callable[[Event], bool],
        timeout_s: float,
        what: str,
        check: Callable[[], None] | None = None,
    ) -> Event:
        """The first event, past or to come, that is `wanted`.

        Args:
            timeout_s: wall seconds after which to give up.
            what: what is awaited, for the error.
            check: called between reads as well; raises if waiting has become pointless.

        Raises:
            RunError: none came in time; the message holds the last event.
        """
        found: list[Event] = []
        seen = 0

        def left() -> str | None:
            nonlocal seen
            self._check()
            if check is not None:
                check()
            self.read()
            found.extend(event for event in self.events[seen:] if wanted(event))
            seen = len(self.events)
            if found:
                return None
            return f"last event: {json.dumps(self.events[-1])}" if self.events else "no event yet"

        wait_until(left, timeout_s, what)
        return found[0]
