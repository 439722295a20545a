"""The live view of an emulation, as its runner sees it: a process, and what that says in the terminal.

Nothing of it may hold up or end the run: what goes wrong with it is said and left at that.
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

#: Wall seconds between two snapshots on a terminal, and between two lines elsewhere.
_SNAPSHOT_S = 1.0
_LINE_S = 5.0
_REQUEST_TIMEOUT_S = 5.0
#: Wall seconds for which the workload waits until the stream runs.
_READY_S = 30.0


class LiveView:
    """Shows a run from when `start` is called. A context manager: the process ends with it.

    Args:
        progress: where it is shown.
        port: where the page should be served; another one if that is in use.
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
        """Starts the process. The run folder has the run's inputs by now."""
        arguments = [str(run_dir), str(self._port)]
        run = RunLayout(run_dir)
        errors = run.live_errors
        self._errors = run.relative(errors)
        self._child = Child("the live view", "testbed.live", arguments, errors, None)
        self._thread = threading.Thread(target=self._follow, args=(self._child,), name="live", daemon=True)
        self._thread.start()

    def wait_ready(self) -> None:
        """Returns when the stream runs, has failed, or takes too long: starting it is what costs most.

        From then on it has the lowest priority.
        """
        started = time.monotonic()
        with self._progress.console.status("live view: Spark starts"):
            in_time = self._ready.wait(_READY_S)
        if in_time:
            self._progress.note(f"live view ready after {time.monotonic() - started:.1f} s more")
        else:
            self._progress.note(f"live view not ready after {_READY_S:g} s; the run goes on without waiting")

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
                self._progress.note(f"the live view did not start: {self._errors} says why")
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
                continue  # it has the lowest priority: on a busy machine it may be late
            if snapshot["stream"]["state"] != "starting":
                self._ready.set()
            if shown:
                self._progress.show_panel(live_table(snapshot, topology, url))
            elif time.monotonic() >= next_line and snapshot["phase"] in ("running", "settling"):
                self._progress.note(live_line(snapshot))
                next_line = time.monotonic() + _LINE_S


def _get(url: str, path: str) -> dict[str, Any]:
    """A JSON object from the page's server; straight, whatever proxies the environment names."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_REQUEST_TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return answer
