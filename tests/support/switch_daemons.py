"""The switch daemons of a run that goes on, for tests that kill and restart them."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.support.command import STATE
from tests.support.polling import TIMEOUT, poll


class RunningSwitches:
    """The ovs-vswitchd of a run of one daemon."""

    def __init__(self, state: dict[str, Any]) -> None:
        self._folder = STATE / state["tag"] / "switches"
        self._pid = int((self._folder / "0.pid").read_text())
        process = Path(f"/proc/{self._pid}")
        self._command = process.joinpath("cmdline").read_bytes().decode().split("\0")[:-1]
        self._namespace = os.open(process / "ns" / "net", os.O_RDONLY)

    def kill(self) -> None:
        """Kills ovs-vswitchd; returns when it is gone."""
        os.kill(self._pid, signal.SIGKILL)
        poll(lambda: None if _running(self._pid) else True, TIMEOUT, "ovs-vswitchd has ended")

    def restart(self) -> None:
        """Starts ovs-vswitchd as the run did; the run ends it."""
        enter = ["nsenter", f"--net=/proc/self/fd/{self._namespace}", "--"]
        subprocess.run(
            [*enter, *self._command, "--detach"],
            env={**os.environ, "OVS_RUNDIR": str(self._folder)},
            pass_fds=[self._namespace],
            check=True,
        )
        os.close(self._namespace)


def _running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
