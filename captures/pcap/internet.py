"""Internet headers of many packets at once: addresses, protocol, ports, time to live, flags of TCP.

RFC 791, RFC 8200, RFC 4302, RFC 9293. `captures.pcap.links` finds where they begin.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.pcap.blocks import Block
from captures.pcap.compiling import Loop
from captures.pcap.links import find_headers

#: The version (0: no address) and sixteen bytes of address, of which IPv4 uses the first four.
_ADDRESS_BYTES = 17


def _read_headers(
    data: Any, start: Any, ends: Any, protocols: Any, addresses: Any, protocol: Any, ports: Any
) -> None:
    """Fills a row of `addresses` (2 x 17 bytes, 0 before), `protocol` and `ports` for each packet.

    `ports` has four columns: both ports, time to live or hop limit, flags of TCP. -1, which the
    caller fills in, means none.
    `protocols` has the Ethernet type of what is at data[start:ends].
    """
    for row in range(len(start)):
        at = start[row]
        end = ends[row]
        ether_type = protocols[row]
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


def internet_headers(block: Block) -> dict[str, pa.Array]:
    """The IPv4 and IPv6 headers of a block's packets, behind the link headers of `captures.pcap.links`.

    Returns columns of view `packets`; null where the packet has no such header.
    """
    count = len(block.start)
    addresses = np.zeros((count, 2 * _ADDRESS_BYTES), np.uint8)
    protocol, ports = np.full(count, -1, np.int32), np.full((count, 4), -1, np.int32)
    places, protocols = find_headers(block)
    ends = block.start + block.captured
    _READ_HEADERS(block.data, (places, ends, protocols), addresses, protocol, ports)
    return {
        "ip_src": _address_texts(addresses[:, :_ADDRESS_BYTES]),
        "ip_dst": _address_texts(addresses[:, _ADDRESS_BYTES:]),
        "ip_protocol": _numbers(protocol),
        "src_port": _numbers(ports[:, 0]),
        "dst_port": _numbers(ports[:, 1]),
        "ttl": _numbers(ports[:, 2]),
        "tcp_flags": _numbers(ports[:, 3]),
    }


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
