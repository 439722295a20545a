"""Settings of network devices by system call.

Hundreds of devices take milliseconds; a process for each device takes seconds.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_SIOCETHTOOL = 0x8946
_ETHTOOL_STXCSUM = 0x17
_IFF_UP = 0x1
_IPV6_CONF = Path("/proc/sys/net/ipv6/conf")


def disable_ipv6(*names: str) -> None:
    """Turns IPv6 off in this namespace, for a device, `all` or `default` (of devices that are made later)."""
    if not _IPV6_CONF.is_dir():
        return  # a kernel without IPv6
    for name in names:
        (_IPV6_CONF / name / "disable_ipv6").write_text("1\n")


def set_up(device: str, up: bool = True) -> None:
    """Sets a device of this namespace up or down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        name = device.encode()
        answer = fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack("16sH14x", name, 0))
        flags = struct.unpack("16sH14x", answer)[1]
        flags = flags | _IFF_UP if up else flags & ~_IFF_UP
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", name, flags))


def prepare(devices: Iterable[str]) -> None:
    """Turns checksum offload off on devices of this namespace, and sets them up."""
    for device in devices:
        disable_offload(device)
        set_up(device)


def disable_offload(device: str) -> None:
    """Turns transmit checksum offload off (`ethtool -K DEVICE tx off`)."""
    value = array.array("B", struct.pack("II", _ETHTOOL_STXCSUM, 0))
    request = struct.pack("16sP8x", device.encode(), value.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCETHTOOL, request)
