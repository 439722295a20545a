"""A live or finished run in the terminal: a table that stays in place, or plain lines.

`display` shows a run to `cbcb live`. `LiveView` shows an emulation to `cbcb run --live`: a process of its own
watches the run and serves the page. A failure of that process is reported, and never delays or ends the run.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from captures.rundir import RunLayout
from captures.rundir.files import RunFolderError
from router.system import die_with
from testbed.support.errors import RunError, TestbedError, exit_status
from testbed.support.processes import Child, end_like_ctrl_c
from testbed.terminal import foreign, put
from testbed.terminal.numbers import clock, count
from testbed.terminal.progress import Progress

#: Wall seconds between two snapshots on a terminal, and between two lines otherwise.
_SNAPSHOT_S = 1.0
_LINE_S = 5.0
#: Priority of the process beside that of the emulation.
_NICE = 19
_BUSIEST = 5
_BAR = 24
Snapshot = Mapping[str, Any]


def display(run_dir: Path, port: int, until_end: bool, control: bool) -> None:
    """Shows a run until it ends, if `until_end`; otherwise until Ctrl-C.

    Raises:
        InputError: not a run folder, or, with `control`, not that of an emulation that is running.
    """
    # Load pyarrow and the page's server.
    from testbed.results.live.server import LiveServer
    from testbed.results.live.state import LiveState
    from testbed.results.live.watch import Watcher

    state = LiveState(run_dir.resolve())
    topology = state.topology
    console = Console()
    next_line = 0.0
    with LiveServer(state, port, control) as server:
        console.print(foreign(f"live: {server.url}"))
        shown = Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext()
        with Watcher(state), shown as live:
            while True:
                snapshot = state.snapshot()
                stream_over = snapshot["stream"]["state"] in ("ended", "failed")
                over = until_end and stream_over and snapshot["phase"] in ("ended", "interrupted")
                if live is not None:
                    live.update(live_table(snapshot, topology, server.url), refresh=True)
                elif over or time.monotonic() >= next_line:
                    next_line = time.monotonic() + _LINE_S
                    console.print(foreign(live_line(snapshot)), soft_wrap=True)
                if over:
                    return
                time.sleep(_SNAPSHOT_S)


class LiveView:
    """Shows an emulation from the call of `start` on; another port is used if `port` is taken.

    A context manager: the process ends with the block.
    """

    def __init__(self, progress: Progress, port: int, control: bool = False) -> None:
        self._progress = progress
        self._port = port
        self._control = control
        self._child: Child | None = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def start(self, run_dir: Path) -> None:
        """Starts the process.

        The run folder must have the run's inputs.
        """
        arguments = [str(run_dir), str(self._port), *(["control"] if self._control else [])]
        run = RunLayout(run_dir)
        self._child = Child("the live view", "testbed.results.live.view", arguments, run.live_errors, None)
        self._thread = threading.Thread(
            target=self._follow, args=(self._child, run), name="live", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._progress.show_panel(None)
        if self._child is not None:
            try:
                self._child.stop()
            except RunError as problem:
                self._progress.note(str(problem))
        if self._thread is not None:
            self._thread.join()

    def _follow(self, child: Child, run: RunLayout) -> None:
        assert child.process.stdout is not None
        errors = run.relative(run.live_errors)
        lines = _documents(child.process.stdout)
        begin = next(lines, None)
        if begin is None:
            if not self._over.is_set():
                self._progress.note(f"the live view did not start: see {errors}")
            return
        url, topology = begin["url"], begin["topology"]
        instead = f" (port {self._port} is in use)" if self._port not in (0, urlsplit(url).port) else ""
        self._progress.note(f"live: {url}{instead}")
        next_line = 0.0
        for snapshot in lines:
            if self._over.is_set():
                return
            if self._progress.console.is_terminal:
                self._progress.show_panel(live_table(snapshot, topology, url))
            elif time.monotonic() >= next_line and snapshot["phase"] in ("running", "settling"):
                self._progress.note(live_line(snapshot))
                next_line = time.monotonic() + _LINE_S
        if not self._over.is_set():
            self._progress.note(f"the live view is no longer shown here: see {errors}")


def _documents(lines: Iterable[bytes]) -> Iterator[Any]:
    """Yields lines of JSON, up to the half line that a process that is stopped may leave."""
    for line in lines:
        try:
            document = json.loads(line)
        except ValueError:
            return
        yield document


def live_table(snapshot: Snapshot, topology: Mapping[str, Any], url: str) -> Table:
    """Returns the snapshot as a table: verdict so far, frames by type, deliveries, the busiest links."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    verdict = snapshot["verdict"]
    style = (
        "bold red" if verdict["reasons"] else "bold blue" if verdict["state"].startswith("holds") else "bold"
    )
    table.add_row("verdict", foreign("; ".join([verdict["state"], *verdict["reasons"]]), style))
    table.add_row("time", f"{_clock(snapshot)}, {snapshot['phase']}")
    table.add_row("frames", foreign(_frames(snapshot)))
    messages = snapshot["messages"]
    table.add_row(
        "messages",
        f"{count(messages['sent'])} sent, {count(messages['sent'] - messages['judged'])} to be judged",
    )
    table.add_row("deliveries", _deliveries(messages))
    label = {node["id"]: node["label"] for node in topology["nodes"]}
    ends = {link["index"]: f"{label[link['u']]}-{label[link['v']]}" for link in topology["links"]}
    in_use = [link for link in snapshot["links"] if link["recent"]]
    busiest = sorted(in_use, key=lambda link: (-link["recent"], -link["frames"]))[:_BUSIEST]
    most = max((link["recent"] for link in busiest), default=0)
    for position, link in enumerate(busiest):
        bar = "█" * round(_BAR * link["recent"] / most) if most else ""
        line = Text.assemble(
            foreign(f"{ends[link['index']]:>9}  {link['recent']:7.1f} frames/s  "),
            (bar, "blue"),
            no_wrap=True,
        )
        table.add_row("busiest links" if position == 0 else "", line)
    table.add_row("page", Text(url, overflow="fold"))
    return table


def live_line(snapshot: Snapshot) -> str:
    return (
        f"live: {_clock(snapshot)}; frames: {_frames(snapshot)}; "
        f"{count(snapshot['messages']['sent'])} messages sent; "
        f"{_deliveries(snapshot['messages'])}; verdict {snapshot['verdict']['state']}"
    )


def _clock(snapshot: Snapshot) -> str:
    return clock(snapshot["clock_s"] or 0, snapshot["run"]["duration_s"])


def _frames(snapshot: Snapshot) -> str:
    stream = snapshot["stream"]
    if stream["state"] == "starting":
        return "none yet"
    if stream["state"] == "failed":
        return f"the captures or logs cannot be read: {stream['detail']}"
    frames = {name: number for name, number in snapshot["frames"].items() if number}
    by_type = ", ".join(f"{name} {count(number)}" for name, number in frames.items())
    return count(sum(frames.values())) + (f" ({by_type})" if by_type else "")


def _deliveries(messages: Mapping[str, int]) -> str:
    return (
        f"{count(messages['delivered'])} delivered, "
        f"{count(messages['made'])} of {count(messages['expected'])} expected, "
        f"{count(messages['missing'])} missed, {count(messages['spurious'])} spurious"
    )


def main() -> int:
    """Watches an emulation: `python -m testbed.results.live.view RUN_DIR PORT [control]`.

    Prints `{"url", "topology"}` when the page is served, then a snapshot a second, each as a line of JSON.
    Ends on SIGTERM, which also comes when the parent process ends.
    """
    from testbed.results.live.server import LiveServer
    from testbed.results.live.state import LiveState
    from testbed.results.live.watch import Watcher

    run_dir, port = Path(sys.argv[1]), int(sys.argv[2])
    # The emulation takes precedence over this process.
    os.nice(_NICE)
    end_like_ctrl_c()
    try:
        die_with(os.getppid(), signal.SIGTERM)
        state = LiveState(run_dir)
        with LiveServer(state, port, "control" in sys.argv[3:]) as server, Watcher(state):
            put(json.dumps({"url": server.url, "topology": state.topology}), flush=True)
            # The snapshots of the page: the terminal costs no further ones, and none that can fail.
            while server.failure is None:
                time.sleep(_SNAPSHOT_S)
                put(server.snapshot.decode(), flush=True)
    except (KeyboardInterrupt, BrokenPipeError):
        return 0
    except (TestbedError, RunFolderError) as error:
        put(error, file=sys.stderr)
        return exit_status(error) or 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
