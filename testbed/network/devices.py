"""Settings of network devices by system call.

Hundreds of devices take milliseconds; a process for each device takes seconds.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from router.runtime.namespaces import enter_network_namespace

_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_SIOCETHTOOL = 0x8946
_ETHTOOL_STXCSUM = 0x17
_IFF_UP = 0x1
_IPV6_CONF = Path("/proc/sys/net/ipv6/conf")


def disable_ipv6(*devices: str) -> None:
    """Turns IPv6 off on devices of this namespace, so that the kernel sends no frames on them."""
    if not _IPV6_CONF.is_dir():
        return  # a kernel without IPv6
    for device in devices:
        (_IPV6_CONF / device / "disable_ipv6").write_text("1\n")


def set_up(device: str, up: bool = True) -> None:
    """Sets a device of this namespace up or down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        name = device.encode()
        answer = fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack("16sH14x", name, 0))
        flags = struct.unpack("16sH14x", answer)[1]
        flags = flags | _IFF_UP if up else flags & ~_IFF_UP
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", name, flags))


def set_up_in(pid: int, device: str, up: bool) -> None:
    """Sets a device in the network namespace of `pid` up or down.

    Raises:
        OSError: the process or device does not exist, or the permission is missing.
    """

    def enter_and_set() -> None:
        enter_network_namespace(pid)
        set_up(device, up)

    # A namespace is entered by one thread, and left when that thread ends.
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(enter_and_set).result()


def disable_offload(device: str) -> None:
    """Turns transmit checksum offload off (`ethtool -K DEVICE tx off`)."""
    value = array.array("B", struct.pack("II", _ETHTOOL_STXCSUM, 0))
    request = struct.pack("16sP8x", device.encode(), value.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCETHTOOL, request)
