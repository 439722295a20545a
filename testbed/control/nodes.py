"""The node that a user names."""

from __future__ import annotations

from testbed.errors import InputError
from testbed.network.names import host_name
from topos.model import Topology
from topos.suggest import unknown


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
    raise InputError(unknown("node", text, ids) if ids else f"node {text}: expected {expected}")
