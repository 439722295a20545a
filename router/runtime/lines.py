"""JSON objects, each on a line: over a non-blocking stream socket with bounds, and in a router's log."""

from __future__ import annotations

import json
import socket
import time
from collections import deque
from typing import Any, TextIO

import msgspec

#: Bytes of one request of an application.
REQUEST_LIMIT = 1024 * 1024
_CHUNK = 65_536
_LOGGED_IN_A_SECOND = 20


def parse_object(line: bytes) -> dict[str, Any]:
    """The JSON object of a line.

    Raises:
        ValueError: the line is not a JSON object in UTF-8, has a number that no double has, or is nested too
            deeply.
    """
    try:
        content = msgspec.json.decode(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a JSON object in UTF-8: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"expected a JSON object, got {type(content).__name__}")  # noqa: TRY004
    return content


class LineTooLongError(ValueError):
    """A peer sent a line longer than the limit; the line was discarded."""


class LineSocket:
    """Splits input into lines and queues output that the peer does not accept yet.

    Args:
        connection: a connected stream socket; it is made non-blocking.
        line_limit: bytes of a line, its end not counted.

    Attributes:
        pending: bytes that were queued and that the peer has not accepted.
        accepted: bytes that the peer has accepted so far.
    """

    def __init__(self, connection: socket.socket, line_limit: int) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._limit = line_limit
        self._input = bytearray()
        self._skipping = False
        self._output: deque[bytes | memoryview] = deque()
        self.pending = 0
        self.accepted = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def receive(self) -> tuple[list[bytes | LineTooLongError], bool]:
        """Reads the available input once.

        Returns:
            The complete lines, without their ends (a `LineTooLongError` in the place of a line that was
            discarded), and whether the peer may still send.
        """
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return [], True
        except OSError:
            return [], False
        if not data:
            return [], False
        return self.feed(data), True

    def feed(self, data: bytes) -> list[bytes | LineTooLongError]:
        """Takes input; returns the lines that it completes."""
        # In one call: 65,536 empty lines, looked for one by one, took 16 ms.
        *ended, rest = data.split(b"\n")
        lines: list[bytes | LineTooLongError] = []
        if ended:
            ended[0] = bytes(self._input) + ended[0]
            self._input.clear()
            whole = ended[1:] if self._skipping else ended
            self._skipping = False
            lines += whole
            if max(map(len, whole), default=0) > self._limit:
                lines = [self._too_long() if len(line) > self._limit else line for line in whole]
        self._input += rest
        if len(self._input) > self._limit:
            if not self._skipping:
                lines.append(self._too_long())
            self._skipping = True
            self._input.clear()
        return lines

    def _too_long(self) -> LineTooLongError:
        return LineTooLongError(f"line longer than {self._limit} bytes")

    def send(self, line: bytes) -> bool:
        """Queues one line (its end included) and sends as much as the peer accepts.

        Returns False if the peer is gone.
        """
        self._output.append(line)
        self.pending += len(line)
        # Queued bytes go first, once the socket is writable.
        return self.flush() if len(self._output) == 1 else True

    def flush(self) -> bool:
        """Sends as much of the queue as the peer accepts.

        Returns False if the peer is gone.
        """
        while self._output:
            first = self._output[0]
            try:
                sent = self._socket.send(first)
            except BlockingIOError:
                return True
            except OSError:
                return False
            self.pending -= sent
            self.accepted += sent
            if sent < len(first):
                self._output[0] = memoryview(first)[sent:]
            else:
                self._output.popleft()
        return True


class Log:
    """Writes events to `file`, at most 20 in any second; counts further events and logs their number.

    The limit keeps a hostile neighbour from filling the disk or the router's time.
    """

    def __init__(self, file: TextIO, node: int) -> None:
        self._file = file
        self._node = node
        self._second = 0
        self._written = 0
        self._suppressed = 0

    def write(self, event: str, fields: dict[str, Any]) -> None:
        """Writes an event, if there is room for it in this second."""
        second = int(time.monotonic())
        if second != self._second:
            self._second = second
            self._written = 0
        if self._written >= _LOGGED_IN_A_SECOND:
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
