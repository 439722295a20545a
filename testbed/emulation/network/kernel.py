"""Settings of the kernel: by the system's tools, with many steps in one process, or by system call.

Hundreds of devices take milliseconds by system call; a process for each device takes seconds.

IPv4 beside CBCB on the hosts, with `[network] ip = true`: a host has one address
(`testbed.support.names.ip_address`), and one route: all others lie behind a gateway that does not exist,
whose link address is entered by hand. No host asks for link addresses then. The switches forward by address,
and give each frame the link addresses of its hop (`testbed.controller.rules`).
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from testbed.support.errors import RunError
from testbed.support.names import host_device, ip_address
from testbed.support.run_state import STATE_ROOT


def run(argv: Sequence[str], stdin: str | None = None, timeout_s: float = 120, check: bool = True) -> str:
    """Runs a command and returns its standard output.

    Raises:
        RunError: the command failed and `check` is true, or it took longer than `timeout_s`.
    """
    try:
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, timeout=timeout_s, start_new_session=True
        )
    except subprocess.TimeoutExpired as error:
        raise RunError(f"{argv[0]} did not end within {timeout_s:g} s") from error
    if check and done.returncode:
        raise RunError(f"{argv[0]} failed ({done.returncode}): {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def ip_batch(lines: Iterable[str]) -> None:
    """Runs `ip` commands, one a line, in one process.

    Raises:
        RunError: a command failed.
    """
    text = "".join(f"{line}\n" for line in lines)
    if text:
        run(["ip", "-batch", "-"], stdin=text)


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


def silence_lines(node: int) -> list[str]:
    """Returns lines for `ip -batch` after which the host sends no IP packet to others."""
    return [f"address flush dev {host_device(node)}", f"route flush dev {host_device(node)}"]


_RCU_EXPEDITED = Path("/sys/kernel/rcu_expedited")


@contextmanager
def expedited_rcu() -> Iterator[None]:
    """Makes the kernel's RCU grace periods short inside the block.

    An ovs-vswitchd that ends closes one packet socket after the other, and each close waits for a grace
    period: 200 switches with 1,000 ports took 2.6 s to end, and 0.3 s with this (2 cores, kernel 6.18,
    userspace datapath; `./run.sh bench bring_up` measures the whole).

    The setting applies to the whole machine. One process at a time changes it and writes the previous value
    to the lock file: if that process is killed, the next process restores the value.
    """
    with ExitStack() as stack:
        # Not permitted in a container, and no room for the lock file on a full disk: slower, but correct.
        with suppress(OSError):
            stack.enter_context(_rcu_expedited())
        yield


@contextmanager
def _rcu_expedited() -> Iterator[None]:
    """Sets the kernel's switch inside the block.

    Raises:
        OSError: the switch or the lock file cannot be written; nothing has changed.
    """
    STATE_ROOT.mkdir(mode=0o755, exist_ok=True)
    # Unbuffered: a value that does not fit is an error of `write`, not of each later call.
    with (STATE_ROOT / "rcu_expedited.lock").open("a+b", buffering=0) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        before = lock.read().strip()
        if not before:
            before = _RCU_EXPEDITED.read_bytes().strip()
            lock.write(before)
        try:
            _RCU_EXPEDITED.write_bytes(b"1")
        except OSError:
            lock.truncate(0)
            raise
        try:
            yield
        finally:
            _RCU_EXPEDITED.write_bytes(before)
            lock.truncate(0)
