"""Network namespaces held by descriptors of this process, and settings of the kernel in them.

The kernel removes a namespace with all devices in it when the last process inside has ended and the last
descriptor is closed: a run that is killed leaves none.

Hundreds of devices take milliseconds by system call; a process for each device takes seconds.

IPv4 beside CBCB on the hosts, with `[network] ip = true`: a host has one address
(`testbed.support.names.ip_address`), and one route: all others lie behind a gateway that does not exist,
whose link address is entered by hand. No host asks for link addresses then. The switches forward by address,
and give each frame the link addresses of its hop (`testbed.controller.rules`).
"""

from __future__ import annotations

import array
import fcntl
import os
import resource
import socket
import struct
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from router.system import enter_network_namespace, enter_new_network_namespace
from testbed.support.errors import MachineError, RunError
from testbed.support.names import host_device, ip_address
from topos import Topology

#: Wall seconds that a command may take.
_COMMAND_S = 120


def run(argv: Sequence[str], stdin: str | None = None) -> str:
    """Runs a command and returns its standard output; raises RunError if it fails, or takes two minutes."""
    try:
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, timeout=_COMMAND_S, start_new_session=True
        )
    except subprocess.TimeoutExpired as error:
        raise RunError(f"{argv[0]} did not end within {_COMMAND_S} s") from error
    if done.returncode:
        raise RunError(f"{argv[0]} failed ({done.returncode}): {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_SIOCETHTOOL = 0x8946
_ETHTOOL_STXCSUM, _ETHTOOL_SGRO = 0x17, 0x2C
_IFF_UP = 0x1
_IPV6_CONF = Path("/proc/sys/net/ipv6/conf")


def disable_ipv6(*names: str) -> None:
    """Turns IPv6 off in this namespace, for a device, `all` or `default` (of devices that are made later)."""
    if not _IPV6_CONF.is_dir():
        return  # a kernel without IPv6
    for name in names:
        (_IPV6_CONF / name / "disable_ipv6").write_text("1\n")


def set_up(device: str, up: bool = True) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        name = device.encode()
        answer = fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack("16sH14x", name, 0))
        flags = struct.unpack("16sH14x", answer)[1]
        flags = flags | _IFF_UP if up else flags & ~_IFF_UP
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", name, flags))


def prepare(devices: Iterable[str]) -> None:
    """Turns checksum offload and GRO off on devices of this namespace, and sets them up."""
    # As `ethtool -K DEVICE tx off gro off`: ovs-vswitchd drops frames of TCP that a tunnel has merged.
    values = [array.array("B", struct.pack("II", what, 0)) for what in (_ETHTOOL_STXCSUM, _ETHTOOL_SGRO)]
    for device in devices:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            for value in values:
                request = struct.pack("16sP8x", device.encode(), value.buffer_info()[0])
                fcntl.ioctl(control, _SIOCETHTOOL, request)
        set_up(device)


#: Addresses of all hosts, and that of the gateway.
_HOSTS, _GATEWAY = "10.0.0.0/8", "10.255.255.254"
#: Link address of the gateway: a locally administered one that no node, switch or controller has.
_GATEWAY_LINK = "02:c9:00:00:00:01"


def address_lines(node: int) -> list[str]:
    """Returns lines for `ip -batch` in the namespace of a node's host, whose device is up."""
    device = host_device(node)
    return [
        "link set lo up",
        f"address replace {ip_address(node)}/32 dev {device}",
        f"neighbour replace {_GATEWAY} lladdr {_GATEWAY_LINK} nud permanent dev {device}",
        f"route replace {_HOSTS} via {_GATEWAY} dev {device} src {ip_address(node)} onlink",
    ]


T = TypeVar("T")

#: Descriptors that this process has open besides namespaces and connections to routers.
_OTHER_DESCRIPTORS = 200
#: Files that each process of a run may open, as far as the hard limit allows: a router has one for each
#: application.
_DESCRIPTORS = 16_384
#: Frames that wait in one queue of the kernel between two devices of a veth pair; not there in containers.
_BACKLOG = Path("/proc/sys/net/core/netdev_max_backlog")


class Namespaces:
    """The network namespaces that a run has made."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []

    def make(self, count: int) -> list[str]:
        """Makes namespaces with IPv6 off, so that the kernel sends no frames on devices made in them.

        Returns their paths, by which any process of this user can enter them while they are held.
        """

        def make_all() -> list[str]:
            paths = []
            for _ in range(count):
                enter_new_network_namespace()
                descriptor = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
                self._descriptors.append(descriptor)
                disable_ipv6("all", "default")
                paths.append(f"/proc/{os.getpid()}/fd/{descriptor}")
            return paths

        return _in_a_thread(make_all)

    def close(self) -> None:
        """Lets the kernel remove the namespaces.

        May be called more than once.
        """
        while self._descriptors:
            os.close(self._descriptors.pop())


def inside(namespaces: Sequence[tuple[str, Callable[[], None]]]) -> None:
    """Calls each function inside its namespace.

    Raises:
        OSError: a namespace does not exist, or the permission is missing.
    """

    def call_all() -> None:
        for path, function in namespaces:
            enter_network_namespace(path)
            function()

    _in_a_thread(call_all)


def run_inside(namespace: str, argv: Sequence[str], stdin: str = "") -> str:
    """Runs a command inside a namespace; returns its standard output.

    Raises:
        RunError: the command failed.
    """
    return run(["nsenter", f"--net={namespace}", "--", *argv], stdin=stdin)


def descriptors_needed(nodes: int) -> int:
    """Returns how many files the process of a run of so many nodes opens."""
    # A namespace, and up to two connections to the router: of its applications, and of a query.
    return 4 * nodes + _OTHER_DESCRIPTORS


def allow_descriptors(nodes: int) -> None:
    """Sets the limit of open files of this process and its children for a run of so many nodes.

    A container's engine may have set a limit of 2^30, which Mininet's `mnexec` would take at its word: it
    closes each number below the limit.

    Raises:
        MachineError: the hard limit is too low.
    """
    needed = descriptors_needed(nodes)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise MachineError(f"{nodes} routers need {needed} open files; the limit is {hard} (`ulimit -Hn`)")
    raised = max(needed, _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard))
    if soft != raised:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))


def require_backlog(topology: Topology) -> None:
    """Refuses switches of the kernel datapath with more ports than frames may wait in the kernel.

    It sends a frame to all ports at once, and the queue drops what it has no room for. Nothing sets the limit
    for the run: it would be that of the whole machine, and of other runs.

    Raises:
        MachineError: the limit is less than twice the number of ports.
    """
    ports = 1 + max(len(topology.neighbours(node.id)) for node in topology.nodes)
    with suppress(FileNotFoundError):
        if (limit := int(_BACKLOG.read_text())) < 2 * ports:
            raise MachineError(
                f"a switch has {ports} ports: the kernel datapath needs a queue of {2 * ports} frames, not"
                f" {limit}; `sysctl -w net.core.netdev_max_backlog={2 * ports}`, or --datapath user"
            )


def _in_a_thread(function: Callable[[], T]) -> T:
    """Calls a function that changes its namespace: only its thread moves, and ends with the call."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(function).result()
