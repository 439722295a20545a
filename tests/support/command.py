"""Running `cbcb` as a user does, and looking for what it left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.network.state import ProcessId
from tests.support.polling import poll

CBCB = [sys.executable, "-m", "testbed.cli.main"]

STATE = Path("/run/cbcb")


@dataclass
class Cbcb:
    """A `cbcb` command under way."""

    process: subprocess.Popen[str]
    runs: Path

    def wait(self, timeout_s: float = 240) -> tuple[int, str]:
        """Exit status and everything printed."""
        output, _ = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, output

    def interrupt(self) -> None:
        """Ctrl-C, as a terminal sends it: to the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def kill(self) -> None:
        self.process.kill()

    def state(self, timeout_s: float = 60) -> dict[str, Any]:
        """The state of this run as soon as it has one."""

        def mine() -> dict[str, Any] | None:
            for file in STATE.glob("*/state.json"):
                state: dict[str, Any] = json.loads(file.read_text())
                if state["owner"]["pid"] == self.process.pid:
                    return state
            return None

        return poll(mine, timeout_s, "the run writes its state")


def left_behind(state: dict[str, Any]) -> list[str]:
    """What of a run is still on the machine: processes, bridges, devices, files."""
    tag = state["tag"]
    found = [f"process {p['pid']}" for p in state["processes"] if ProcessId(**p).alive()]
    bridges = subprocess.run(["ovs-vsctl", "list-br"], capture_output=True, text=True, check=True).stdout
    devices = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
    names = bridges.split() + [line.split()[0] for line in devices.splitlines()]
    found += sorted({name for name in names if name.startswith(f"c{tag}s")})
    if (STATE / tag).exists():
        found.append(str(STATE / tag))
    return found
