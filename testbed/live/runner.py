"""The live view of an emulation on the side of its runner: the process, and its display in the terminal.

A failure of the live view must not delay or end the run: failures are only reported.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from captures.rundir.layout import RunLayout
from testbed.errors import RunError
from testbed.live.terminal import live_line, live_table
from testbed.processes import Child
from testbed.terminal.progress import Progress

#: Wall seconds between two snapshots on a terminal, and between two lines otherwise.
_SNAPSHOT_S = 1.0
_LINE_S = 5.0
_REQUEST_TIMEOUT_S = 5.0
#: Wall seconds for which the workload waits until the stream runs.
_READY_S = 30.0


class LiveView:
    """Shows a run from the call of `start` on.

    A context manager: the process ends with the block.

    Args:
        progress: the display of the run.
        port: port of the page; another port is used if it is taken.
    """

    def __init__(self, progress: Progress, port: int) -> None:
        self._progress = progress
        self._port = port
        self._errors = ""
        self._child: Child | None = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._ready = threading.Event()

    def start(self, run_dir: Path) -> None:
        """Starts the process.

        The run folder must have the run's inputs.
        """
        arguments = [str(run_dir), str(self._port)]
        run = RunLayout(run_dir)
        errors = run.live_errors
        self._errors = run.relative(errors)
        self._child = Child("the live view", "testbed.live", arguments, errors, None)
        self._thread = threading.Thread(target=self._follow, args=(self._child,), name="live", daemon=True)
        self._thread.start()

    def wait_ready(self) -> None:
        """Returns when the stream runs, has failed, or takes too long.

        Starting the stream is the largest cost.

        A running stream has the lowest priority.
        """
        started = time.monotonic()
        with self._progress.console.status("live view: Spark starts"):
            in_time = self._ready.wait(_READY_S)
        if in_time:
            self._progress.note(f"live view ready after {time.monotonic() - started:.1f} s more")
        else:
            self._progress.note(
                f"live view not ready after {_READY_S:g} s; the run continues without waiting"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._progress.show_panel(None)
        if self._child is not None:
            try:
                self._child.stop()
            except RunError as problem:
                self._progress.note(str(problem))
        if self._thread is not None:
            self._thread.join()

    def _follow(self, child: Child) -> None:
        assert child.process.stdout is not None
        line = child.process.stdout.readline()
        if not line:
            if not self._over.is_set():
                self._progress.note(f"the live view did not start: see {self._errors}")
                self._ready.set()
            return
        url = json.loads(line)["url"]
        instead = f" (port {self._port} is in use)" if self._port not in (0, urlsplit(url).port) else ""
        self._progress.note(f"live: {url}{instead}")
        try:
            self._show(url)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._ready.set()
            if not self._over.is_set():
                self._progress.note(f"the live view is no longer shown here: {error!r}")

    def _show(self, url: str) -> None:
        shown = self._progress.console.is_terminal
        topology = None
        next_line = 0.0
        while not self._over.wait(_SNAPSHOT_S):
            try:
                topology = topology or _get(url, "/topology")
                snapshot = _get(url, "/state")
            except TimeoutError:
                continue  # the process has the lowest priority and may be late on a busy machine
            if snapshot["stream"]["state"] != "starting":
                self._ready.set()
            if shown:
                self._progress.show_panel(live_table(snapshot, topology, url))
            elif time.monotonic() >= next_line and snapshot["phase"] in ("running", "settling"):
                self._progress.note(live_line(snapshot))
                next_line = time.monotonic() + _LINE_S


def _get(url: str, path: str) -> dict[str, Any]:
    """Reads a JSON object from the page's server, without the proxies that the environment names."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_REQUEST_TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return answer
