"""Supervision of ovs-vswitchd, the process of all switches of a run, by its process id."""

from __future__ import annotations

import os
import time

from testbed.errors import RunError
from testbed.network.commands import run
from testbed.network.names import OVS_RUN_FOLDER

#: Wall seconds for which ovs-vswitchd may be absent: its monitor, or systemd, restarts it in less time.
_AWAY_S = 10.0
_ANSWER_S = 5


class SwitchDaemon:
    """Detects that ovs-vswitchd has ended and was not restarted."""

    def __init__(self) -> None:
        self._seen_at = time.monotonic()

    def check(self) -> None:
        """Raises RunError if ovs-vswitchd has been absent for 10 wall seconds."""
        now = time.monotonic()
        if _runs():
            self._seen_at = now
        elif now - self._seen_at > _AWAY_S:
            raise RunError(
                f"ovs-vswitchd ended during the run, and has been away for {_AWAY_S:g} s"
                " (service openvswitch-switch restart)"
            )


def answers() -> bool:
    """Whether ovs-vswitchd answers within 5 wall seconds."""
    try:
        run(["ovs-appctl", f"--timeout={_ANSWER_S}", "version"], timeout_s=_ANSWER_S + 1)
    except (OSError, RunError):
        return False
    return True


def _runs() -> bool:
    """Returns whether the process named by ovs-vswitchd's pid file exists."""
    try:
        pid = int((OVS_RUN_FOLDER / "ovs-vswitchd.pid").read_text())
        os.kill(pid, 0)
    except (OSError, ValueError):
        return False
    return True
