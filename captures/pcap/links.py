"""The link headers of many packets at once: where the internet header begins, and of which protocol it is.

Known are Ethernet, Linux cooked captures (LINKTYPE_ 113, 276), loopback (0, 108), PPP (9, 50), PPPoE (51),
Cisco's HDLC (104), packets of NFLOG (239), and captures without a link header (12, 14, 101, 228, 229):
https://www.tcpdump.org/linktypes.html. Behind them, or in each other: tags of VLANs (802.1Q, 802.1ad), SNAP
(RFC 1042), PPPoE (RFC 2516), PPP (RFC 1661), MPLS (RFC 3032) and Cisco's metadata (0x8909).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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
