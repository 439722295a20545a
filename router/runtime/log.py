"""A router's log: one JSON object a line, at a limited rate."""

from __future__ import annotations

import json
import time
from typing import Any, TextIO


class Log:
    """Writes events to `file`, at most `per_second` in any second; counts the others and logs their number.

    The limit keeps a hostile neighbour from filling the disk or the router's time.
    """

    def __init__(self, file: TextIO, node: int, per_second: int = 20) -> None:
        self._file = file
        self._node = node
        self._per_second = per_second
        self._second = 0
        self._written = 0
        self._suppressed = 0

    def write(self, event: str, fields: dict[str, Any]) -> None:
        """Writes an event, if there is room for it in this second."""
        second = int(time.monotonic())
        if second != self._second:
            self._second = second
            self._written = 0
        if self._written >= self._per_second:
            self._suppressed += 1
            return
        self._written += 1
        self.write_always(event, fields)

    def write_always(self, event: str, fields: dict[str, Any]) -> None:
        """Writes an event that no neighbour can cause and that readers of the log rely on."""
        line: dict[str, Any] = {"t_ns": time.time_ns(), "node": self._node, "event": event, **fields}
        if self._suppressed:
            line["suppressed_before"] = self._suppressed
            self._suppressed = 0
        try:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        except OSError:
            # A full disk: the router continues. The file keeps the line for its next flush.
            self._suppressed += 1
