"""The sockets of Open vSwitch: packet sockets of its ports, JSON-RPC to its daemons, and their counters.

With the userspace datapath an ovs-vswitchd receives the frames of each port by a socket with a buffer of
net.core.rmem_default (`netdev_linux_rxq_construct` in its lib/netdev-linux.c): some 90 Ethernet frames, fewer
than the fragments of a long predicate.

JSON-RPC 1.0 on a Unix socket is the protocol of ovsdb-server (RFC 7047) and of `ovs-appctl`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from captures.rundir.measures import Port, SwitchCounters, SwitchDrops
from router.runtime.packet_socket import RECEIVE_BUFFER, grow_receive_buffer, take_drops
from router.system import LIBC
from router.wire.header import CONTROLLER_SOURCE, HOST_PORT
from testbed.support.errors import RunError

_CHUNK = 1 << 20


class JsonRpc:
    """A connection.

    Args:
        timeout_s: wall seconds that one call may take.

    Raises:
        OSError: nobody listens at the socket.
    """

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._path = path
        self._calls = 0
        self._text = ""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def call(self, method: str, params: list[Any]) -> Any:
        """Calls a method and returns its result.

        Raises:
            RunError: the server answered with an error, not in time, or not at all.
        """
        self._calls += 1
        request = {"method": method, "params": params, "id": self._calls}
        try:
            self._send(request)
            while True:
                message = self._receive()
                if message.get("method") == "echo":  # the server checks that this client is alive
                    self._send({"result": message["params"], "error": None, "id": message["id"]})
                elif message.get("id") == self._calls:
                    break
        except OSError as error:
            raise RunError(f"{self._path}: {method}: {error or type(error).__name__}") from error
        if message.get("error"):
            raise RunError(f"{self._path}: {method}: {message['error']}")
        return message["result"]

    def _send(self, message: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode())

    def _receive(self) -> dict[str, Any]:
        """Returns the next message: JSON objects follow each other without a separator."""
        while True:
            self._text = self._text.lstrip()
            try:
                message, end = json.JSONDecoder().raw_decode(self._text)
            except ValueError:
                chunk = self._socket.recv(_CHUNK)
                if not chunk:
                    raise ConnectionResetError("the server has closed the connection") from None
                self._text += chunk.decode()
                continue
            self._text = self._text[end:]
            if not isinstance(message, dict):
                raise ConnectionAbortedError(f"expected a JSON object, got {message!r}")
            return message


_COUNT = r"(?:\d+|\?)"
#: A port of `dpctl/show -s` whose device is that of a switch port (`testbed.support.names.port_device`).
_PORT = re.compile(
    r"port \d+: s(?P<node>\d+)-(?:e(?P<port>\d+)|h)\b[^\n]*\n"
    rf"\s*RX packets:(?P<rx_packets>{_COUNT}) errors:{_COUNT} dropped:(?P<rx_dropped>{_COUNT})[^\n]*\n"
    rf"\s*TX packets:(?P<tx_packets>{_COUNT}) errors:{_COUNT} dropped:(?P<tx_dropped>{_COUNT})[^\n]*\n"
    r"[^\n]*\n"
    rf"\s*RX bytes:(?P<rx_bytes>{_COUNT})[^\n]*?TX bytes:(?P<tx_bytes>{_COUNT})"
)
#: A rule of table 0 of `bridge/dump-flows` that drops; the lines of other tables begin with their number.
_DROP = re.compile(
    r"^duration=\S+ n_packets=(?P<frames>\d+), [^\n]*?priority=\d+(?P<match>\S*),actions=drop$", re.M
)
#: Upcalls that failed, of `dpctl/show`.
_LOST = re.compile(r"^\s*lookups: [^\n]*\blost:(\d+)", re.M)
_OF_CONTROLLER = f"dl_src={CONTROLLER_SOURCE.hex(':')}"


def parse_ports(texts: Iterable[str]) -> SwitchCounters:
    """Parses the outputs of `ovs-appctl dpctl/show -s`: node -> port number -> counters."""
    switches: SwitchCounters = {}
    for text in texts:
        for found in _PORT.finditer(text):
            port = HOST_PORT if found["port"] is None else int(found["port"])
            switches.setdefault(int(found["node"]), {})[port] = {
                name: 0 if found[name] == "?" else int(found[name]) for name in Port.__annotations__
            }
    return switches


def parse_lost(text: str) -> int:
    """Parses the frames that a datapath could not hand over to ovs-vswitchd, from `ovs-appctl dpctl/show`.

    The userspace datapath hands none over: it counts 0.

    Raises:
        RunError: the text has no such count.
    """
    if (found := _LOST.search(text)) is None:
        raise RunError(f"ovs-appctl dpctl/show: {text[:200]!r}; expected a line `lookups: ... lost:NUMBER`")
    return int(found[1])


def parse_drops(text: str) -> SwitchDrops:
    """Parses the output of `ovs-appctl bridge/dump-flows` of one switch (`testbed.controller.rules`)."""
    drops = SwitchDrops(controller_source=0, no_rule=0)
    for found in _DROP.finditer(text):
        of_controller = _OF_CONTROLLER in found["match"]
        drops["controller_source" if of_controller else "no_rule"] += int(found["frames"])
    return drops


def difference(start: SwitchCounters, end: SwitchCounters) -> SwitchCounters:
    return {
        node: {
            port: {name: count - start[node][port][name] for name, count in counters.items()}
            for port, counters in ports.items()
        }
        for node, ports in end.items()
    }


# The functions about the sockets of a process raise OSError if the process has ended.

#: The system call; the os module lacks it. The number is that of x86-64, arm64 and most others.
_SYS_PIDFD_GETFD = 438


def grow(pid: int) -> None:
    """Gives the packet sockets of a process receive buffers as large as those of a router.

    Frames that have found no room before are not counted: a fault kept the process from them.
    """
    for each in packet_sockets(pid):
        with each:
            grow_receive_buffer(each, RECEIVE_BUFFER)
            take_drops(each)


def take_dropped(pid: int) -> dict[str, int]:
    """Returns the frames that found no room since the last call, by the device of the socket.

    A device is missing where a container forbids to reach the sockets of another process.
    """
    frames: Counter[str] = Counter()
    for each in packet_sockets(pid):
        with each:
            frames[each.getsockname()[0]] += take_drops(each)
    return frames


def packet_sockets(pid: int) -> Iterator[socket.socket]:
    """The packet sockets of a process, each as a descriptor of this one; none if a container forbids that."""
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
