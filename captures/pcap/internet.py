"""Internet headers of many packets at once: addresses, protocol, ports, time to live, flags of TCP.

RFC 791, RFC 8200, RFC 4302, RFC 9293.

The headers are found behind the link headers of Ethernet (with or without a VLAN tag), of Linux cooked
captures (LINKTYPE_ 113, 276) and of loopback (0, 108), and in captures without a link header (101, 228, 229):
https://www.tcpdump.org/linktypes.html.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.pcap.compiling import Loop, should_compile
from captures.pcap.reader import LINKTYPE_ETHERNET, Block

#: The version (0: no address) and sixteen bytes of address, of which IPv4 uses the first four.
_ADDRESS_BYTES = 17


def _read_headers(
    data: Any, start: Any, captured: Any, link_type: Any, addresses: Any, protocol: Any, ports: Any
) -> None:
    """Fills a row of `addresses` (2 x 17 bytes, 0 before), `protocol` and `ports` for each packet.

    `ports` has four columns: both ports, time to live or hop limit, flags of TCP. -1 means none.
    `link_type` has the link type of each packet, or one element for all packets.
    """
    several = len(link_type) > 1
    for row in range(len(start)):
        protocol[row] = -1
        ports[row, 0] = -1
        ports[row, 1] = -1
        ports[row, 2] = -1
        ports[row, 3] = -1
        at = start[row]
        end = at + captured[row]
        link = link_type[row] if several else link_type[0]
        ether_type = 0
        if link == 1 or link == 113:
            # Ethernet, Linux cooked: the last bytes of the header are the type.
            at += 14 if link == 1 else 16
            if at > end:
                continue
            ether_type = 0 + (data[at - 2] << 8 | data[at - 1])
        elif link == 276:
            # Linux cooked, version 2: the first bytes of the header are the type.
            at += 20
            if at > end:
                continue
            ether_type = 0 + (data[at - 20] << 8 | data[at - 19])
        elif link == 101 or link == 228 or link == 229:
            # No link header; 101: IPv4 or IPv6, 228: IPv4, 229: IPv6.
            if at >= end:
                continue
            if link != 229 and data[at] >> 4 == 4:
                ether_type = 0x0800
            elif link != 228 and data[at] >> 4 == 6:
                ether_type = 0x86DD
        elif link == 0 or link == 108:
            # Loopback: the address family, in the byte order of the machine or of the network.
            at += 4
            if at > end:
                continue
            high = 0 + (data[at - 4] << 8 | data[at - 3])
            low = 0 + (data[at - 2] << 8 | data[at - 1])
            family = low
            if high != 0:
                family = (0 + data[at - 4]) if data[at - 3] == 0 and low == 0 else 0
            if family == 2:
                ether_type = 0x0800
            elif family == 24 or family == 28 or family == 30:
                # NetBSD and OpenBSD, FreeBSD, macOS.
                ether_type = 0x86DD
        if (ether_type == 0x8100 or ether_type == 0x88A8) and at + 4 <= end:
            ether_type = 0 + (data[at + 2] << 8 | data[at + 3])
            at += 4
        behind = 0
        if ether_type == 0x0800 and at + 20 <= end and data[at] >> 4 == 4:
            header = (data[at] & 15) * 4
            if header < 20:
                continue
            addresses[row, 0] = 4
            addresses[row, 17] = 4
            for index in range(4):
                addresses[row, 1 + index] = data[at + 12 + index]
                addresses[row, 18 + index] = data[at + 16 + index]
            protocol[row] = data[at + 9]
            ports[row, 2] = data[at + 8]
            # Only the first fragment has ports.
            if data[at + 6] & 0x1F == 0 and data[at + 7] == 0:
                behind = at + header
        elif ether_type == 0x86DD and at + 40 <= end and data[at] >> 4 == 6:
            addresses[row, 0] = 6
            addresses[row, 17] = 6
            for index in range(16):
                addresses[row, 1 + index] = data[at + 8 + index]
                addresses[row, 18 + index] = data[at + 24 + index]
            next_header = 0 + data[at + 6]
            ports[row, 2] = data[at + 7]
            behind = at + 40
            # Hop-by-hop options, routing, fragment, authentication, destination options.
            while True:
                extended = next_header == 0 or next_header == 43 or next_header == 44
                extended = extended or next_header == 51 or next_header == 60
                if not extended or behind == 0 or behind + 8 > end:
                    break
                header_at = behind
                if next_header == 51:
                    behind += (data[header_at + 1] + 2) * 4
                elif next_header != 44:
                    behind += (data[header_at + 1] + 1) * 8
                elif data[header_at + 2] << 8 | data[header_at + 3] & 0xF8:
                    # A later fragment: no header follows.
                    behind = 0
                else:
                    behind += 8
                next_header = 0 + data[header_at]
            # Otherwise the protocol is cut off, or in the first fragment.
            if not extended:
                protocol[row] = next_header
        # TCP, UDP, DCCP, SCTP, UDP-Lite begin with their ports.
        code = protocol[row]
        with_ports = code == 6 or code == 17 or code == 33 or code == 132 or code == 136
        if behind > 0 and with_ports and behind + 4 <= end:
            ports[row, 0] = data[behind] << 8 | data[behind + 1]
            ports[row, 1] = data[behind + 2] << 8 | data[behind + 3]
        if behind > 0 and code == 6 and behind + 14 <= end:
            ports[row, 3] = data[behind + 13]


_READ_HEADERS = Loop(_read_headers)


@dataclass(frozen=True, slots=True)
class InternetHeaders:
    """Columns of the packets of a block; null where the packet has no such header."""

    source: pa.Array
    destination: pa.Array
    protocol: pa.Array
    source_port: pa.Array
    destination_port: pa.Array
    ttl: pa.Array
    tcp_flags: pa.Array


def internet_headers(block: Block) -> InternetHeaders:
    """The IPv4 and IPv6 headers of the packets of a block, behind the link headers that this module knows."""
    count = len(block.start)
    addresses = np.zeros((count, 2 * _ADDRESS_BYTES), np.uint8)
    protocol, ports = np.empty(count, np.int32), np.empty((count, 4), np.int32)
    link_type = block.link_type
    if link_type is None:
        link_type = np.array([LINKTYPE_ETHERNET])
    if should_compile(len(block.data)):
        raw = np.frombuffer(block.data, np.uint8)
        _READ_HEADERS.compiled(raw, block.start, block.captured, link_type, addresses, protocol, ports)
    else:
        columns = (column.tolist() for column in (block.start, block.captured, link_type))
        _READ_HEADERS.plain(memoryview(block.data), *columns, addresses, protocol, ports)
    return InternetHeaders(
        _address_texts(addresses[:, :_ADDRESS_BYTES]),
        _address_texts(addresses[:, _ADDRESS_BYTES:]),
        _numbers(protocol),
        _numbers(ports[:, 0]),
        _numbers(ports[:, 1]),
        _numbers(ports[:, 2]),
        _numbers(ports[:, 3]),
    )


def _numbers(values: npt.NDArray[np.int32]) -> pa.Array:
    return pa.array(np.ascontiguousarray(values), mask=values < 0)


def _address_texts(addresses: npt.NDArray[np.uint8]) -> pa.Array:
    """Addresses as text; each distinct address is formatted once."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(addresses))]
    encoded = pa.Array.from_buffers(pa.binary(_ADDRESS_BYTES), len(addresses), buffers).dictionary_encode()
    texts = pa.array([_text(each) for each in encoded.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(encoded.indices, texts).cast(pa.string())


def _text(address: bytes) -> str | None:
    if address[0] == 4:
        return str(IPv4Address(address[1:5]))
    return str(IPv6Address(address[1:])) if address[0] == 6 else None
