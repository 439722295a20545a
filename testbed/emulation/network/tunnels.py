"""Links between machines: a VXLAN device (RFC 7348) at either end, and the largest frame that passes it.

The device is made where it is used, in a switch's namespace, and ends with it. Its outer packets leave from
the namespace of the process that made it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from router.runtime.packet_socket import RECEIVE_BUFFER, grow_receive_buffer

#: Bytes of the largest frame of a host with its Ethernet header, and of the shortest, which ends a series.
FULL_FRAME, _END = 1514, 60
#: Full frames that are sent, since networks lose some; bytes between the sizes that are tried next.
_TRIES, _STEP = 3, 40
#: Wall seconds in which a series must have arrived.
_ARRIVAL_S = 2.0
_ETHERTYPE = 0x88B6  # IEEE 802's second for local experiments; CBCB has the first
_HEADER = b"\xff" * 6 + bytes.fromhex("02c900000002") + _ETHERTYPE.to_bytes(2, "big")
#: The first UDP port from which tunnels send, and their number.
_FIRST_SOURCE, _SOURCES = 49_152, 16_000


@dataclass(frozen=True)
class Tunnel:
    """The end of a link whose other end is on another machine.

    Attributes:
        local, remote: IP addresses of this machine and of the other.
        vni: VXLAN network identifier, unique among the tunnels of both machines, of all runs.
        port: UDP port to which both ends send.
    """

    local: str
    remote: str
    vni: int
    port: int

    def line(self, device: str, namespace: str) -> str:
        """Returns a line for `ip -batch` that makes the device in a namespace.

        A frame that the network between the machines is too small for is dropped and counted (`df`): many
        networks lose fragments in silence, and with `dev` nobody would count. All frames of a link leave from
        one port, and so stay in order: VXLAN would choose it by the frame, and networks spread frames by it.
        """
        source = _FIRST_SOURCE + self.vni % _SOURCES
        return (
            f"link add {device} netns {namespace} type vxlan id {self.vni} local {self.local}"
            f" remote {self.remote} dstport {self.port} srcport {source} {source + 1} nolearning df set"
        )


class Probes:
    """Frames of many sizes through the tunnels of a machine, while no switch is there."""

    def __init__(self) -> None:
        self._sockets: dict[int, socket.socket] = {}

    def listen(self, link: int, device: str) -> None:
        """Begins to receive from the tunnel of a link, by a device of this namespace."""
        self._sockets[link] = each = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        grow_receive_buffer(each, RECEIVE_BUFFER)
        each.bind((device, _ETHERTYPE))

    def send_probes(self, sizes: Sequence[int]) -> None:
        """Sends frames of these sizes in bytes, then one that ends the series, through each tunnel."""
        for each in self._sockets.values():
            each.settimeout(_ARRIVAL_S)
            for size in (*sizes, _END):
                each.send(_HEADER.ljust(size, b"\0"))

    def largest_probes(self) -> dict[int, int]:
        """Returns the size of the largest frame of a series that came by each tunnel; 0: none came."""
        found = dict.fromkeys(self._sockets, 0)
        deadline = time.monotonic() + _ARRIVAL_S
        for link, each in self._sockets.items():
            size = 0
            with suppress(TimeoutError):
                while size != _END:
                    each.settimeout(max(1e-3, deadline - time.monotonic()))
                    size = len(each.recv(FULL_FRAME))
                    found[link] = max(size, found[link])
        return found

    def close(self) -> None:
        """May be called more than once: before switches start, and before the network stops."""
        while self._sockets:
            self._sockets.popitem()[1].close()


def largest_frames(machines: Sequence[Probes]) -> dict[int, int]:
    """Measures the largest frame that passes each tunnel both ways, at most a full one.

    Args:
        machines: all of the run, or what calls those of other processes.

    Returns:
        Bytes with the Ethernet header, by index of the link; 0: no frame passes.
    """
    found = _passing(machines, [FULL_FRAME] * _TRIES)
    if min(found.values(), default=FULL_FRAME) < FULL_FRAME:
        coarse = _passing(machines, range(_END + _STEP, FULL_FRAME, _STEP))
        sizes = {size + more for size in coarse.values() for more in range(_STEP)}
        found = _passing(machines, sorted(size for size in sizes if _END < size <= FULL_FRAME))
    return found


def _passing(machines: Sequence[Probes], sizes: Sequence[int]) -> dict[int, int]:
    for machine in machines:
        machine.send_probes(sizes)
    came = [machine.largest_probes() for machine in machines]
    return {link: min(each.get(link, FULL_FRAME) for each in came) for link in chain(*came)}
