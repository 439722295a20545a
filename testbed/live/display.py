"""Shows a live or finished run in the terminal and serves its page."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.live import Live

from testbed.live.server import LiveServer
from testbed.live.state import LiveState
from testbed.live.terminal import live_line, live_table
from testbed.live.watch import INTERVAL_S, Watcher, open_state
from testbed.terminal.text import foreign

#: Wall seconds between two lines if standard output is no terminal.
_LINE_S = 5.0


def display(run_dir: Path, port: int, master: str, until_end: bool) -> None:
    """Shows a run until it ends, if `until_end`; otherwise until Ctrl-C.

    Args:
        port: port of the page; another port is used if it is taken.
        master: Spark's master URL.

    Raises:
        InputError: not a run folder.
    """
    state = open_state(run_dir.resolve())
    console = Console()
    with LiveServer(state, port) as server:
        console.print(foreign(f"live: {server.url}"))
        with Watcher(state, master):
            if console.is_terminal:
                _table(state, server.url, console, until_end)
            else:
                _lines(state, console, until_end)


def _over(state: LiveState) -> bool:
    snapshot = state.snapshot()
    return snapshot["phase"] in ("ended", "interrupted") and snapshot["stream"]["state"] not in (
        "starting",
        "running",
    )


def _table(state: LiveState, url: str, console: Console, until_end: bool) -> None:
    topology = state.topology()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(live_table(state.snapshot(), topology, url), refresh=True)
            if until_end and _over(state):
                return
            time.sleep(INTERVAL_S)


def _lines(state: LiveState, console: Console, until_end: bool) -> None:
    next_line = 0.0
    while True:
        over = until_end and _over(state)
        if over or time.monotonic() >= next_line:
            next_line = time.monotonic() + _LINE_S
            console.print(foreign(live_line(state.snapshot())), soft_wrap=True)
        if over:
            return
        time.sleep(INTERVAL_S)
