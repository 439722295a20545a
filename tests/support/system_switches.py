"""The machine's own Open vSwitch, which plain Mininet needs; a run of the testbed has its own daemons."""

from __future__ import annotations

import subprocess
from functools import cache


@cache
def start_open_vswitch() -> None:
    """Starts the machine's Open vSwitch daemons unless they answer.

    Raises:
        subprocess.CalledProcessError: they cannot be started.
    """
    shown = subprocess.run(["ovs-vsctl", "--timeout=60", "show"], capture_output=True, check=False)
    if shown.returncode:
        control = "/usr/share/openvswitch/scripts/ovs-ctl"
        subprocess.run([control, "start", "--system-id=random"], capture_output=True, check=True)
