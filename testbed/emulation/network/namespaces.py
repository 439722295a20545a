"""Network namespaces held by descriptors of this process.

The kernel removes a namespace with all devices in it when the last process inside has ended and the last
descriptor is closed: a run that is killed leaves none.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from router.system import enter_network_namespace, enter_new_network_namespace
from testbed.emulation.network.kernel import disable_ipv6, run
from testbed.support.errors import MachineError
from topos.model import Topology

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
