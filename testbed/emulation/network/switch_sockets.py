"""The packet sockets of an ovs-vswitchd: their buffers, and the frames that found no room in them.

With the userspace datapath an ovs-vswitchd receives the frames of each port by a socket with a buffer of
net.core.rmem_default (`netdev_linux_rxq_construct` in its lib/netdev-linux.c): some 90 Ethernet frames. A
router sends more than that back to back, the fragments of a long predicate. The kernel drops what has no
room, and Open vSwitch does not know.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from router.runtime.packet_socket import RECEIVE_BUFFER, grow_receive_buffer, take_drops
from router.system import LIBC

# The system call; the os module lacks it. The number is that of x86-64, arm64 and most others.
_SYS_PIDFD_GETFD = 438


def grow(pid: int) -> None:
    """Gives the packet sockets of a process receive buffers as large as those of a router.

    Frames that have found no room before are not counted: a fault kept the process from them.

    Raises:
        OSError: the process has ended.
    """
    for each in packet_sockets(pid):
        with each:
            grow_receive_buffer(each, RECEIVE_BUFFER)
            take_drops(each)


def take_dropped(pid: int) -> dict[str, int]:
    """Returns the frames that found no room since the last call, by the device of the socket.

    A device is missing where a container forbids to reach the sockets of another process.

    Raises:
        OSError: the process has ended.
    """
    frames: Counter[str] = Counter()
    for each in packet_sockets(pid):
        with each:
            frames[each.getsockname()[0]] += take_drops(each)
    return frames


def packet_sockets(pid: int) -> Iterator[socket.socket]:
    """The packet sockets of a process, each as a descriptor of this one; none if a container forbids that.

    Raises:
        OSError: the process has ended.
    """
    folder = Path("/proc") / str(pid)
    table = (folder / "net" / "packet").read_text().splitlines()[1:]
    links = {f"socket:[{line.split()[-1]}]" for line in table}
    try:
        process = os.pidfd_open(pid)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOSYS):
            return
        raise
    try:
        for link in (folder / "fd").iterdir():
            if _target(link) not in links:
                continue
            taken = LIBC.syscall(_SYS_PIDFD_GETFD, process, int(link.name), 0)
            # Less than 0: the process has closed it since, or the call is not permitted.
            if taken >= 0:
                yield socket.socket(socket.AF_PACKET, socket.SOCK_RAW, fileno=taken)
    finally:
        os.close(process)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except (FileNotFoundError, PermissionError):
        return ""
