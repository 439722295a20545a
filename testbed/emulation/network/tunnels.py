"""Links between machines: a VXLAN device (RFC 7348) at either end, and probes of what passes it.

The device is made where it is used, in a switch's namespace, and ends with it. Its outer packets leave from
the namespace of the process that made it.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from testbed.emulation.network.namespaces import run
from testbed.support.processes import wait_until

#: Bytes of the largest frame of a host with its Ethernet header, and of its outer packet.
FULL_FRAME, NEEDED_MTU = 1514, 1550
#: Probes that are sent, since networks lose some, and wall seconds in which one must have arrived, and in
#: which nft must have made rules.
_PROBES, _ARRIVAL_S, _RULES_S = 3, 2.0, 10.0
_ETHERTYPE = 0x88B6  # IEEE 802's second for local experiments; CBCB has the first
_HEADER = b"\xff" * 6 + bytes.fromhex("02c900000002") + _ETHERTYPE.to_bytes(2, "big")
#: UDP port to which tunnels send (IANA), the first of those from which they do, and their number.
PORT, _FIRST_SOURCE, _SOURCES = 4789, 49_152, 16_000


@dataclass(frozen=True)
class Tunnel:
    """The end of a link whose other end is on another machine.

    Attributes:
        local, remote: IP addresses of this machine and of the other.
        vni: VXLAN network identifier, unique among the tunnels of a run.
    """

    local: str
    remote: str
    vni: int

    def line(self, device: str, namespace: str) -> str:
        """Returns a line for `ip -batch` that makes the device in a namespace.

        A frame that the network between the machines is too small for is dropped and counted (`df`): many
        networks lose fragments in silence, and with `dev` nobody would count. All frames of a link leave from
        one port, and so stay in order: VXLAN would choose it by the frame, and networks spread frames by it.
        """
        source = _FIRST_SOURCE + self.vni % _SOURCES
        return (
            f"link add {device} netns {namespace} type vxlan id {self.vni} local {self.local}"
            f" remote {self.remote} dstport {PORT} srcport {source} {source + 1} nolearning df set"
        )


def admit_peers(tunnels: Collection[Tunnel]) -> subprocess.Popen[str]:
    """Has the kernel drop, in this thread's namespace, a frame to a tunnel unless another machine sent it.

    VXLAN itself takes frames from any address. The rules end with their owner, the process that is returned,
    and this with its standard input: a run that is killed leaves none. Raises RunError if the kernel has no
    such rules.
    """
    peers = ", ".join({each.remote for each in tunnels})
    vnis = ", ".join(str(each.vni) for each in tunnels)
    rules = (
        "add table ip cbcb { flags owner; chain c { type filter hook input priority 0;"
        f" ip saddr != {{ {peers} }} udp dport {PORT} @th,96,24 {{ {vnis} }} drop; }}; }}"
    )
    run(["nft", "--check", "--file", "-"], rules)  # the owner goes on after an error
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    owner = subprocess.Popen(["nft", "-i"], stdin=pipe, stdout=null, text=True, start_new_session=True)
    assert owner.stdin is not None
    owner.stdin.write(f"{rules}\n")
    owner.stdin.flush()

    def missing() -> str | None:
        return None if "table ip cbcb\n" in run(["nft", "list", "tables"]) else "nft has not made it"

    wait_until(missing, _RULES_S, "the table of rules for tunnels")
    return owner


class Probes:
    """Full frames through the tunnels of a machine, while no switch is there."""

    def __init__(self) -> None:
        #: Link -> a socket at its device.
        self._tunnels: dict[int, socket.socket] = {}

    def listen(self, link: int, device: str) -> None:
        """Begins to receive from the tunnel of a link, by a device of this namespace."""
        self._tunnels[link] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._tunnels[link].bind((device, _ETHERTYPE))

    def send(self) -> None:
        for each in self._tunnels.values():
            for _ in range(_PROBES):
                each.send(_HEADER.ljust(FULL_FRAME, b"\0"))

    def missing(self) -> list[int]:
        """Returns the links by which no frame has come."""
        found, deadline = [*self._tunnels], time.monotonic() + _ARRIVAL_S
        for link, each in self._tunnels.items():
            each.settimeout(max(1e-3, deadline - time.monotonic()))
            with suppress(TimeoutError):
                each.recv(FULL_FRAME)
                found.remove(link)
        return found

    def close(self) -> None:
        """May be called more than once: before switches start, and before the network stops."""
        while self._tunnels:
            self._tunnels.popitem()[1].close()
