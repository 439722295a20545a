"""Internet headers of many packets at once: addresses, protocol and ports (RFC 791, RFC 8200)."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.packets.compiling import Loop, worth_compiling
from captures.pcap import LINKTYPE_ETHERNET, Block

#: Version (0: none) and sixteen bytes of address, of which IPv4 uses the first four.
_ADDRESS_BYTES = 17


def _read_headers(data: Any, start: Any, captured: Any, addresses: Any, protocol: Any, ports: Any) -> None:
    """Fills a row of `addresses` (2 x 17 bytes, zero before), `protocol` and `ports` (2; -1: none) each."""
    for row in range(len(start)):
        protocol[row] = -1
        ports[row, 0] = -1
        ports[row, 1] = -1
        at = start[row] + 14
        end = start[row] + captured[row]
        if at > end:
            continue
        kind = data[at - 2] << 8 | data[at - 1]
        if (kind == 0x8100 or kind == 0x88A8) and at + 4 <= end:
            kind = data[at + 2] << 8 | data[at + 3]
            at += 4
        behind = 0
        if kind == 0x0800 and at + 20 <= end and data[at] >> 4 == 4:
            header = (data[at] & 15) * 4
            if header < 20:
                continue
            addresses[row, 0] = 4
            addresses[row, 17] = 4
            for index in range(4):
                addresses[row, 1 + index] = data[at + 12 + index]
                addresses[row, 18 + index] = data[at + 16 + index]
            protocol[row] = data[at + 9]
            # Ports are in the first fragment.
            if data[at + 6] & 0x1F == 0 and data[at + 7] == 0:
                behind = at + header
        elif kind == 0x86DD and at + 40 <= end and data[at] >> 4 == 6:
            addresses[row, 0] = 6
            addresses[row, 17] = 6
            for index in range(16):
                addresses[row, 1 + index] = data[at + 8 + index]
                addresses[row, 18 + index] = data[at + 24 + index]
            following = 0 + data[at + 6]
            behind = at + 40
            # Hop-by-hop options, routing, destination options, fragment.
            while behind + 8 <= end and (
                following == 0 or following == 43 or following == 60 or following == 44
            ):
                here = behind
                if following != 44:
                    behind += (data[here + 1] + 1) * 8
                elif data[here + 2] << 8 | data[here + 3] & 0xF8:
                    following = 0 + data[here]
                    behind = 0
                    break
                else:
                    behind += 8
                following = 0 + data[here]
            protocol[row] = following
        # TCP, UDP, DCCP, SCTP, UDP-Lite begin with their ports.
        code = protocol[row]
        with_ports = code == 6 or code == 17 or code == 33 or code == 132 or code == 136
        if behind > 0 and with_ports and behind + 4 <= end:
            ports[row, 0] = data[behind] << 8 | data[behind + 1]
            ports[row, 1] = data[behind + 2] << 8 | data[behind + 3]


_READ_HEADERS = Loop(_read_headers)


@dataclass(frozen=True, slots=True)
class InternetHeaders:
    """Columns of the packets of a block; null where there is no such header."""

    source: pa.Array
    destination: pa.Array
    protocol: pa.Array
    source_port: pa.Array
    destination_port: pa.Array


def internet_headers(block: Block) -> InternetHeaders:
    """The IPv4 and IPv6 headers of the Ethernet packets of a block."""
    count = len(block.start)
    addresses = np.zeros((count, 2 * _ADDRESS_BYTES), np.uint8)
    protocol, ports = np.empty(count, np.int32), np.empty((count, 2), np.int32)
    captured = block.captured
    if block.link_type is not None:
        captured = np.where(block.link_type == LINKTYPE_ETHERNET, captured, 0)
    if worth_compiling(len(block.data)):
        raw = np.frombuffer(block.data, np.uint8)
        _READ_HEADERS.compiled(raw, block.start, captured, addresses, protocol, ports)
    else:
        _READ_HEADERS.plain(
            memoryview(block.data), block.start.tolist(), captured.tolist(), addresses, protocol, ports
        )
    return InternetHeaders(
        _address_texts(addresses[:, :_ADDRESS_BYTES]),
        _address_texts(addresses[:, _ADDRESS_BYTES:]),
        _numbers(protocol),
        _numbers(ports[:, 0]),
        _numbers(ports[:, 1]),
    )


def _numbers(values: npt.NDArray[np.int32]) -> pa.Array:
    return pa.array(np.ascontiguousarray(values), mask=values < 0)


def _address_texts(addresses: npt.NDArray[np.uint8]) -> pa.Array:
    """Addresses as text, each distinct one written once."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(addresses))]
    encoded = pa.Array.from_buffers(pa.binary(_ADDRESS_BYTES), len(addresses), buffers).dictionary_encode()
    texts = pa.array([_text(each) for each in encoded.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(encoded.indices, texts).cast(pa.string())


def _text(address: bytes) -> str | None:
    if address[0] == 4:
        return str(IPv4Address(address[1:5]))
    return str(IPv6Address(address[1:])) if address[0] == 6 else None
