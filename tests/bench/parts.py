"""The processes of a run by the part of the testbed that they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psutil

#: Part -> a word of the command line of its processes; the first that fits.
PARTS = {
    "runner": "testbed.cli.main",
    "routers": "router.runtime.parent",
    "controller": "testbed.controller",
    "captures": "captures.capturing.recorder",
    "ovs-vswitchd": "ovs-vswitchd",
    "ovsdb-server": "ovsdb-server",
    "prepared": "testbed.cli.prepared",
    "jvm": "org.apache.spark",
    "workers": "captures.spark.workers",
}
#: The part of processes that no word fits: short-lived commands.
OTHERS = "commands"


def part_of(command: str) -> str:
    """The part of a process with a command line."""
    return next((part for part, word in PARTS.items() if word in command), OTHERS)


def processes_of(runner: int) -> Iterator[tuple[str, psutil.Process]]:
    """Yields part and process of a runner and of its descendants; a process may end while it is read."""
    with suppress(psutil.Error):
        root = psutil.Process(runner)
        for process in [root, *root.children(recursive=True)]:
            with suppress(psutil.Error):
                yield part_of(" ".join(process.cmdline())), process
