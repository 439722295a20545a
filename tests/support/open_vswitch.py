"""A separate Open vSwitch for a test, whose daemons can be killed without harm to the machine's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.polling import poll

_SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")


class OpenVswitch:
    """ovsdb-server and ovs-vswitchd with a database and sockets in one folder.

    Attributes:
        environment: makes Open vSwitch's tools, and `cbcb`, use these daemons.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        names = ("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR")
        self.environment = {**os.environ, **dict.fromkeys(names, str(folder))}

    def start_database(self) -> None:
        self.run("ovsdb-tool", "create", str(self._folder / "conf.db"), str(_SCHEMA))
        remote = f"--remote=punix:{self._folder}/db.sock"
        self.run("ovsdb-server", str(self._folder / "conf.db"), remote, "--pidfile", "--detach", "--log-file")
        self.run("ovs-vsctl", "--no-wait", "init")

    def start_switches(self) -> None:
        database = f"unix:{self._folder}/db.sock"
        self.run("ovs-vswitchd", database, "--pidfile", "--detach", "--log-file")

    def kill_switches(self) -> None:
        """Kills ovs-vswitchd; returns when it is gone."""
        self._kill("ovs-vswitchd")

    def stop(self) -> None:
        for daemon in ("ovs-vswitchd", "ovsdb-server"):
            self._kill(daemon)

    def run(self, *command: str) -> str:
        """Runs a tool of Open vSwitch and returns its output."""
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    def _kill(self, daemon: str) -> None:
        with suppress(FileNotFoundError, ProcessLookupError):
            pid = int((self._folder / f"{daemon}.pid").read_text())
            os.kill(pid, signal.SIGKILL)
            poll(lambda: None if Path(f"/proc/{pid}").exists() else True, 10, f"{daemon} has ended")


@contextmanager
def open_vswitch() -> Iterator[OpenVswitch]:
    """Starts both daemons; ends them and removes their folder on leaving."""
    # A short path: the name of a Unix socket has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="cbcb-ovs-", dir="/run"))
    daemons = OpenVswitch(folder)
    try:
        daemons.start_database()
        daemons.start_switches()
        yield daemons
    finally:
        daemons.stop()
        shutil.rmtree(folder)
