"""Headers of many packets at once: link headers, and the internet headers behind them.

Link headers known are Ethernet, Linux cooked captures (LINKTYPE_ 113, 276), loopback (0, 108), PPP (9, 50),
PPPoE (51), Cisco's HDLC (104), packets of NFLOG (239), and captures without a link header (12, 14, 101, 228,
229): https://www.tcpdump.org/linktypes.html. Behind them, or in each other: tags of VLANs (802.1Q, 802.1ad),
SNAP (RFC 1042), PPPoE (RFC 2516), PPP (RFC 1661), MPLS (RFC 3032) and Cisco's metadata (0x8909).

Of internet headers: addresses, protocol, ports, time to live, flags of TCP (RFC 791, RFC 8200, RFC 4302,
RFC 9293).
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.pcap import LINKTYPE_ETHERNET
from captures.pcap.blocks import Block
from captures.pcap.compiling import Loop

Int64s = npt.NDArray[np.int64]
#: Tags of VLANs: 802.1Q, 802.1ad, and 802.1ad before the standard.
VLAN_TAGS = (0x8100, 0x88A8, 0x9100)


def _find_headers(data: Any, start: Any, captured: Any, link_type: Any, places: Any, protocols: Any) -> None:
    """Fills in where the header behind the link headers begins, and its Ethernet type (0: not known).

    `link_type` has the link type of each packet, or one element for all packets.
    """
    several = len(link_type) > 1
    for row in range(len(start)):
        at = start[row]
        end = at + captured[row]
        link = link_type[row] if several else link_type[0]
        ether_type = 0
        # Headers of LLC and of PPP may begin at `at`.
        llc = False
        ppp = False
        if link == 1 or link == 113:
            # Ethernet, Linux cooked: the last bytes of the header are the type.
            at += 14 if link == 1 else 16
            if at <= end:
                ether_type = 0 + (data[at - 2] << 8 | data[at - 1])
                # Up to 1,500 a length, and 4 in cooked captures: LLC.
                llc = ether_type <= 1500 if link == 1 else ether_type == 4
        elif link == 276:
            # Linux cooked, version 2: the first bytes of the header are the type.
            at += 20
            if at <= end:
                ether_type = 0 + (data[at - 20] << 8 | data[at - 19])
                llc = ether_type == 4
        elif link == 12 or link == 14 or link == 101 or link == 228 or link == 229:
            # No link header; 228: IPv4, 229: IPv6, others: either.
            if at < end and link != 229 and data[at] >> 4 == 4:
                ether_type = 0x0800
            elif at < end and link != 228 and data[at] >> 4 == 6:
                ether_type = 0x86DD
        elif link == 0 or link == 108:
            # Loopback: the address family, in the byte order of the machine or of the network.
            at += 4
            if at <= end:
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
        elif link == 9 or link == 50 or link == 104:
            ppp = link != 104
            if at + 4 <= end and (
                link == 104 or ((data[at] == 0x0F or data[at] == 0x8F) and data[at + 1] == 0)
            ):
                # Cisco's HDLC.
                ppp = False
                ether_type = 0 + (data[at + 2] << 8 | data[at + 3])
                at += 4
        elif link == 51:
            ether_type = 0x8864
        elif link == 239 and at + 4 <= end:
            family = 0 + data[at]
            at += 4
            # Attributes: length and type in the byte order of the machine, which is not recorded.
            while at + 4 <= end:
                length = 0 + (data[at + 1] << 8 | data[at])
                kind = 0 + (data[at + 3] << 8 | data[at + 2])
                if length < 4 or at + length > end or kind & 0x7FFF > 255:
                    length = 0 + (data[at] << 8 | data[at + 1])
                    kind = 0 + (data[at + 2] << 8 | data[at + 3])
                if length < 4:
                    break
                if kind == 9:
                    # The packet.
                    at += 4
                    if family == 2:
                        ether_type = 0x0800
                    elif family == 10:
                        ether_type = 0x86DD
                    break
                at += (length + 3) // 4 * 4
        while True:
            if llc:
                # SNAP with the Ethernet type of RFC 1042, or of a bridge (802.1H).
                ether_type = 0
                llc = False
                if (
                    at + 8 <= end
                    and data[at] == 0xAA
                    and data[at + 1] == 0xAA
                    and data[at + 2] == 3
                    and data[at + 3] == 0
                    and data[at + 4] == 0
                    and (data[at + 5] == 0 or data[at + 5] == 0xF8)
                ):
                    ether_type = 0 + (data[at + 6] << 8 | data[at + 7])
                    at += 8
            elif ppp:
                ppp = False
                if at + 2 <= end and data[at] == 0xFF and data[at + 1] == 3:
                    at += 2
                number = 0
                if at < end and data[at] & 1 == 1:
                    # The number of the protocol is compressed.
                    number = 0 + data[at]
                    at += 1
                elif at + 2 <= end:
                    number = 0 + (data[at] << 8 | data[at + 1])
                    at += 2
                if number == 0x21:
                    ether_type = 0x0800
                elif number == 0x57:
                    ether_type = 0x86DD
                elif number == 0x281:
                    ether_type = 0x8847
                else:
                    ether_type = 0
            elif ether_type == 0x8100 or ether_type == 0x88A8 or ether_type == 0x9100:
                ether_type = 0
                if at + 4 <= end:
                    ether_type = 0 + (data[at + 2] << 8 | data[at + 3])
                    at += 4
                    llc = ether_type <= 1500
            elif ether_type == 0x8847 or ether_type == 0x8848:
                ether_type = 0
                last = False
                while not last and at + 4 <= end:
                    last = data[at + 2] & 1 == 1
                    at += 4
                # The label alone says what follows; IP is recognised by its version.
                if last and at < end and data[at] >> 4 == 4:
                    ether_type = 0x0800
                elif last and at < end and data[at] >> 4 == 6:
                    ether_type = 0x86DD
            elif ether_type == 0x8909:
                # Version, length, an option with a security group, and the Ethernet type.
                ether_type = 0
                if at + 8 <= end:
                    ether_type = 0 + (data[at + 6] << 8 | data[at + 7])
                    at += 8
            elif ether_type == 0x8864:
                # Session of PPPoE: version and type, code 0, session, length.
                ppp = at + 6 <= end and data[at] == 0x11 and data[at + 1] == 0
                ether_type = 0
                at += 6
            else:
                break
        places[row] = at
        protocols[row] = ether_type


# numba types a shifted byte as unsigned; `0 +` makes it a signed number, as the other numbers are.
_FIND_HEADERS = Loop(_find_headers)


def find_headers(block: Block) -> tuple[Int64s, Int64s]:
    """Where each packet's link headers end in the block, and the Ethernet type behind them (0: unknown)."""
    count = len(block.start)
    places, protocols = np.empty(count, np.int64), np.empty(count, np.int64)
    link_type = np.array([LINKTYPE_ETHERNET]) if block.link_type is None else block.link_type
    _FIND_HEADERS(block.data, (block.start, block.captured, link_type), places, protocols)
    return places, protocols


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
    """The IPv4 and IPv6 headers of a block's packets, behind the link headers of `captures.pcap.internet`.

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
