"""Simulations with the workload of the protocol paper (section 4.1) on Waxman networks of growing size.

The experiment is the shipped `waxman3200` with fewer nodes: 20 % of the nodes send 3 messages a minute each
from second 30 on, 75 % receive, half of these change their predicates once in 20 minutes; 60 s, or
`--duration`. So every receiver's advertisement has spread everywhere before the first message. No captures
are kept, and nothing is accounted for. Each size runs in a process of its own, since memory is the process's.
CPU seconds are of this process, not of the machine; "all" are those of the whole command, with loading and
writing.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_SIMULATE = "import sys; from testbed.cli.main import main; sys.exit(main())"
_COLUMNS = {
    "events": "events",
    "set_up_cpu_s": "set-up CPU s",
    "cpu_s": "run CPU s",
    "events_per_cpu_s": "events/s",
    "memory_per_router_bytes": "bytes/router",
    "all_cpu_s": "all CPU s",
    "peak_mb": "peak MB",
}
_DECIMALS = {"set_up_cpu_s": 1, "cpu_s": 1, "all_cpu_s": 1}


def _measure(nodes: int, duration_s: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = ["simulate", "waxman3200", "--topology", f"waxman,{nodes}", "--captures", "none"]
        command += ["--set", f"duration_s={duration_s}"]
        before = _children_cpu_s()
        subprocess.run(
            [sys.executable, "-c", _SIMULATE, *command, "--no-account", "--runs", folder],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        all_cpu_s = _children_cpu_s() - before
        (run,) = Path(folder).iterdir()
        measured: dict[str, Any] = json.loads((run / "simulation.json").read_text())
    return {**measured, "all_cpu_s": all_cpu_s, "peak_mb": measured["peak_memory_bytes"] / 1e6}


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(*sizes: int, duration: int = 60) -> None:
    """Prints one line a size as it is measured.

    Args:
        duration: experiment seconds.
    """
    print("".join(f"{name:>14}" for name in ("nodes", *_COLUMNS.values())))
    for nodes in sorted(sizes or (200, 400, 800, 1600)):
        found = _measure(nodes, duration)
        row = "".join(f"{found[key]:14,.{_DECIMALS.get(key, 0)}f}" for key in _COLUMNS)
        print(f"{nodes:14}{row}", flush=True)
