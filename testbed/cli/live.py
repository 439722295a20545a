"""`cbcb live`: watches a run, one that goes on or one that is over, in the terminal and on a page."""

from __future__ import annotations

import time
from argparse import Namespace

from rich.console import Console
from rich.live import Live

from testbed.live.server import LiveServer
from testbed.live.state import LiveState
from testbed.live.terminal import live_line, live_table
from testbed.live.watch import INTERVAL_S, Watcher, open_state
from testbed.runs.folders import find_run

#: Wall seconds between two lines where there is no terminal.
_LINE_S = 5.0


def main(arguments: Namespace) -> int:
    """Returns 0 when the run is over, with --until-end; otherwise only Ctrl-C ends it."""
    state = open_state(find_run(arguments.runs, arguments.run).resolve())
    console = Console()
    with LiveServer(state, arguments.port) as server:
        console.print(f"live: {server.url}", highlight=False)
        with Watcher(state, arguments.master):
            if console.is_terminal:
                _table(state, server.url, console, arguments.until_end)
            else:
                _lines(state, console, arguments.until_end)
    return 0


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
            console.print(live_line(state.snapshot()), highlight=False, markup=False, soft_wrap=True)
        if over:
            return
        time.sleep(INTERVAL_S)
