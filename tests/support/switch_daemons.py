"""The switch daemons of a run that goes on, for tests that kill them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from tests.support.command import STATE
from tests.support.polling import TIMEOUT, poll


def kill_switches(state: dict[str, Any]) -> None:
    """Kills the ovs-vswitchd of a run of one daemon; returns when it is gone."""
    pid = int((STATE / state["tag"] / "switches" / "0.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    poll(lambda: None if _running(pid) else True, TIMEOUT, "ovs-vswitchd has ended")


def _running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
