"""Ethernet addresses of the testbed: who sent a frame, and through which ports it leaves.

A router's source address carries its node identifier: ``02:cb:NN:NN:NN:NN`` (locally administered
unicast). The destination of a router's frame is a multicast address that carries the set of output
ports as a bitmap: ``03:PP:BB:BB:BB:BB``, page ``PP`` and 32 port bits; port ``p`` is bit
``(p - 1) % 32`` (least significant bit first) of page ``(p - 1) // 32``. Ports on several pages take
one frame per page. Kin: BIER (RFC 8279) and LIPSIN.
"""

from __future__ import annotations

from collections.abc import Iterable

ETHERTYPE = 0x88B5
#: EtherType of IPv4, which an emulation can carry beside CBCB.
IPV4_ETHERTYPE = 0x0800
#: Bytes of destination, source and EtherType in front of a CBCB header.
ETHERNET_HEADER_LENGTH = 14
PORTS_PER_PAGE = 32
#: Interface I0 stands for the local applications; link interfaces are 1..k, equal to switch ports.
LOCAL_INTERFACE = 0
#: The switch port of the router's own host, outside the range that bitmaps can name.
HOST_PORT = 65_000
#: Pages 0..253 name ports; the last two are reserved.
MAX_INTERFACE = 254 * PORTS_PER_PAGE
#: Source address of the controller's frames and destination of frames to it.
CONTROLLER_SOURCE = bytes.fromhex("02ca00000001")
CONTROLLER_DESTINATION = bytes.fromhex("03ff00000000")
#: Destination of the controller's frames (any router that gets one is the one meant).
ROUTER_DESTINATION = bytes.fromhex("03fe00000000")
_NODE_PREFIX = b"\x02\xcb"


#: The sender of the controller's frames, where nodes are numbers.
CONTROLLER = -1


def node_address(node: int) -> bytes:
    """The 6-byte source address of a node's router."""
    return _NODE_PREFIX + node.to_bytes(4, "big")


def node_of(address: bytes) -> int | None:
    """The node that an address belongs to, or None if it is not a router's address."""
    if address[:2] != _NODE_PREFIX or len(address) != 6:
        return None
    return int.from_bytes(address[2:], "big")


def sender_of(frame: bytes) -> int | None:
    """The node that sent an Ethernet frame, by its source address; `CONTROLLER`; None: neither.

    The controller sends to `ROUTER_DESTINATION` alone, which switches let no host use.
    """
    if frame[6:8] == _NODE_PREFIX and len(frame) >= 12:
        return int.from_bytes(frame[8:12], "big")
    return CONTROLLER if frame[6:12] == CONTROLLER_SOURCE and frame[:6] == ROUTER_DESTINATION else None


def port_addresses(ports: Iterable[int]) -> list[bytes]:
    """The destination addresses that name exactly `ports`, one per page, in page order.

    Raises:
        ValueError: a port is outside 1..MAX_INTERFACE.
    """
    pages: dict[int, int] = {}
    for port in ports:
        if not 1 <= port <= MAX_INTERFACE:
            raise ValueError(f"port {port} is outside 1..{MAX_INTERFACE}")
        page, bit = divmod(port - 1, PORTS_PER_PAGE)
        pages[page] = pages.get(page, 0) | 1 << bit
    return [bytes((3, page)) + pages[page].to_bytes(4, "big") for page in sorted(pages)]


def ports_of(address: bytes) -> frozenset[int]:
    """The ports that a destination address names (empty for any other address)."""
    if len(address) != 6 or address[0] != 3 or address[1] >= 254:
        return frozenset()
    bits = int.from_bytes(address[2:], "big")
    base = address[1] * PORTS_PER_PAGE + 1
    return frozenset(base + bit for bit in range(PORTS_PER_PAGE) if bits >> bit & 1)
