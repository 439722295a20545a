"""Capture files made by hand: pcap and pcapng in either byte order."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from captures.datasource.options import ReadOptions
from captures.datasource.views import View
from captures.frames import CaptureIdentity

#: time_ns, bytes of the packet.
Packet = tuple[int, bytes]


def made_view(
    name: str, columns: Iterable[str], captures: Mapping[str, CaptureIdentity] | None = None, **options: Any
) -> View:
    """A table of captures; `options` as of `ReadOptions`."""
    return View(ReadOptions(view=name, columns=tuple(columns), **options), captures or {})


def pcap(packets: Sequence[Packet], order: str = "<", nano: bool = True, link_type: int = 1) -> bytes:
    """A pcap file of whole packets."""
    magic, unit = (0xA1B23C4D, 1) if nano else (0xA1B2C3D4, 1000)
    content = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262_144, link_type)]
    for time_ns, data in packets:
        seconds, ns = divmod(time_ns, 10**9)
        content += struct.pack(order + "IIII", seconds, ns // unit, len(data), len(data)), data
    return b"".join(content)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + size + body + size


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(
    order: str = "<", *, link_type: int = 1, snaplen: int = 0, tsresol: int | None = None, tsoffset: int = 0
) -> bytes:
    options = struct.pack(order + "HH", 2, 4) + b"eth0"
    if tsresol is not None:
        options += struct.pack(order + "HHB3x", 9, 1, tsresol)
    if tsoffset:
        options += struct.pack(order + "HHq", 14, 8, tsoffset)
    options += bytes(4)
    return block(1, struct.pack(order + "HHI", link_type, 0, snaplen) + options, order)


def enhanced(ticks: int, data: bytes, order: str = "<", number: int = 0, length: int | None = None) -> bytes:
    """An Enhanced Packet Block; `length`: on the wire, by default that of `data`."""
    head = struct.pack(
        order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), length or len(data)
    )
    return block(6, head + data, order)


def simple(data: bytes, order: str = "<", length: int | None = None) -> bytes:
    return block(3, struct.pack(order + "I", length or len(data)) + data, order)


def old(ticks: int, data: bytes, order: str = "<", number: int = 0) -> bytes:
    """A Packet Block, as pcapng had them at first."""
    head = struct.pack(order + "HHIIII", number, 0, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    return block(2, head + data, order)


def pcapng(packets: Sequence[Packet], order: str = "<") -> bytes:
    """A pcapng file of one section and one interface with nanoseconds."""
    return (
        section(order)
        + interface(order, tsresol=9)
        + b"".join(enhanced(time_ns, data, order) for time_ns, data in packets)
    )
