"""How far Open vSwitch is behind: the time that its daemons take to answer.

The main thread of an ovs-vswitchd forwards the frames of the userspace datapath (and, of the kernel's, those
without a flow), and answers requests of its control socket between two rounds of that work: an answer takes
as long as a frame waits for its round.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence
from pathlib import Path

_REQUEST = b'{"id":0,"method":"version","params":[]}'


class SwitchProbe:
    """Asks each daemon for its version, one question at a time.

    A daemon that is not there counts nothing: its supervision reports that.

    Args:
        controls: the control sockets of the daemons.
    """

    def __init__(self, controls: Sequence[Path]) -> None:
        self._controls = list(controls)
        self._sockets: dict[Path, socket.socket] = {}
        self._asked: dict[Path, float] = {}

    def lag_s(self, patience_s: float) -> float:
        """Wall seconds that the slowest answer takes, or has taken so far.

        Args:
            patience_s: wall seconds to wait for answers; the next call waits for those that are left.
        """
        for path in self._controls:
            self._ask(path)
        lag = 0.0
        deadline = time.monotonic() + patience_s
        while self._asked:
            # Not select(2): the descriptors of a large network exceed its 1,024.
            with selectors.DefaultSelector() as selector:
                for path in self._asked:
                    selector.register(self._sockets[path], selectors.EVENT_READ, path)
                ready = [key.data for key, _ in selector.select(max(0.0, deadline - time.monotonic()))]
            now = time.monotonic()
            if not ready:
                return max(lag, *(now - asked for asked in self._asked.values()))
            for path in ready:
                lag = max(lag, now - self._asked.pop(path))
                try:
                    if not self._sockets[path].recv(65_536):
                        self._close(path)
                except OSError:
                    self._close(path)
        return lag

    def close(self) -> None:
        for path in list(self._sockets):
            self._close(path)

    def _ask(self, path: Path) -> None:
        if path in self._asked:
            return
        try:
            if path not in self._sockets:
                self._sockets[path] = connection = socket.socket(socket.AF_UNIX)
                connection.setblocking(False)
                connection.connect(str(path))
            self._sockets[path].send(_REQUEST)
        except OSError:
            self._close(path)
        else:
            self._asked[path] = time.monotonic()

    def _close(self, path: Path) -> None:
        self._asked.pop(path, None)
        connection = self._sockets.pop(path, None)
        if connection is not None:
            connection.close()
