"""Names of a run's devices on the machine: unique per run, and short enough for Linux.

A device name holds at most 15 characters. With a tag of three, nodes up to 99,999 and ports up to 999 fit.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from router.wire.addresses import HOST_PORT

TAG_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
TAG_LENGTH = 3
DEVICE_NAME_MAX = 15
#: Where Open vSwitch has its sockets. ovs-vswitchd connects to Unix sockets in this folder only.
OVS_RUN_FOLDER = Path(os.environ.get("OVS_RUNDIR", "/var/run/openvswitch"))


def new_tag() -> str:
    """Returns a random tag.

    The caller checks that no other run holds it.
    """
    return "".join(secrets.choice(TAG_ALPHABET) for _ in range(TAG_LENGTH))


@dataclass(frozen=True)
class Names:
    """The names of the run with a tag."""

    tag: str

    @property
    def prefix(self) -> str:
        """The first characters of every name of the run in the root namespace."""
        return f"c{self.tag}s"

    def switch(self, node: int) -> str:
        """Bridge of switch s<node>."""
        return f"{self.prefix}{node}"

    def port(self, node: int, port: int) -> str:
        """Device of a switch port; the host port is named -h."""
        return f"{self.prefix}{node}-h" if port == HOST_PORT else f"{self.prefix}{node}-e{port}"

    @property
    def controller_socket(self) -> Path:
        """The Unix socket on which the switches connect to the controller."""
        return OVS_RUN_FOLDER / f"cbcb-{self.tag}.controller"

    @staticmethod
    def host(node: int) -> str:
        """Mininet name of the host."""
        return f"r{node}"

    @staticmethod
    def host_device(node: int) -> str:
        """The host's own end of its link, inside its namespace."""
        return f"r{node}-eth0"

    @property
    def group(self) -> int:
        """Device group of the run's links, so that the kernel can delete them all at once."""
        return 0x0CBC_0000 + int(self.tag, 36)


def datapath_id(node: int) -> str:
    """OpenFlow datapath id of switch s<node> (node + 1, since 0 is not valid), 16 hex digits."""
    return f"{node + 1:016x}"
