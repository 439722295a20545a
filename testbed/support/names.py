"""Names of a run's hosts, switches and devices, each unique within the run.

Runs do not see each other's devices: every run has network namespaces of its own. A device name holds at most
15 characters: nodes up to 999,999 and ports up to 65,534 fit.
"""

from __future__ import annotations

from router.wire.header import HOST_PORT
from testbed.support.errors import InputError
from topos import Topology, unknown


def switch_name(node: int) -> str:
    return f"s{node}"


def port_device(node: int, port: int) -> str:
    """Device of a switch port, in the namespace of the node's switch; the host port is named -h."""
    return f"s{node}-h" if port == HOST_PORT else f"s{node}-e{port}"


def host_name(node: int) -> str:
    return f"r{node}"


def host_device(node: int) -> str:
    """The host's own end of its link, inside its namespace."""
    return f"r{node}-eth0"


def ip_address(node: int) -> str:
    """IPv4 address of a node's host, with `[network] ip = true`: 10.0.0.1 for node 0, and so on."""
    number = node + 1
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def datapath_id(node: int) -> str:
    """OpenFlow datapath id of switch s<node> (node + 1, since 0 is not valid), 16 hex digits."""
    return f"{node + 1:016x}"


def node_id(text: str, topology: Topology) -> int:
    """Returns the id of the node with a number (3), a host name (r3) or a name of the topology.

    A name of the topology wins over a host name.

    Raises:
        InputError: the topology has no such node.
    """
    ids = topology.ids
    if text in ids:
        return ids[text]
    digits = text.removeprefix("r")
    if digits.isascii() and digits.isdigit() and int(digits) < len(topology.nodes):
        return int(digits)
    last = len(topology.nodes) - 1
    expected = f"0 to {last}, or {host_name(0)} to {host_name(last)}"
    named = unknown("node", text, ids, f"{expected}, or a name of the topology")
    raise InputError(named if ids else f"node {text}: expected {expected}")
