"""IPv4 beside CBCB on the hosts, with `[network] ip = true`.

A host has one address (`testbed.support.names.ip_address`), and one route: all others lie behind a gateway
that does not exist, whose link address is entered by hand. No host asks for link addresses then. The switches
forward by address, and give each frame the link addresses of its hop (`testbed.controller.rules`).
"""

from __future__ import annotations

from testbed.support.names import host_device, ip_address

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
