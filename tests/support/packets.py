"""Frames and trailers read from packets, with the codec of the routers; packets made without the codec."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from scapy.fields import FieldLenField

from router.wire import codec
from router.wire.authentication import HEAD
from router.wire.format import TAG_BYTES, Flags
from router.wire.frames import Frame
from router.wire.header import ETHERTYPE, decode_header, length_with_signature, node_address, port_addresses
from router.wire.layers import CBCB
from tests.support.whole_frames import decode


def to_frame(packet: Any) -> Frame:
    """The frame that a packet with a `CBCB` layer stands for, checked as one off the wire would be.

    Raises:
        DecodeError: the packet, as built, breaks a rule of the format, or is a fragment.
    """
    return decode(bytes(packet[CBCB]))


def crafted(packet: Any) -> Any:
    """A packet with the layers and fields of another, whose lengths and counts Scapy has to compute."""
    computed = ("tlv_length", "total_length", "payload_length")
    values = {
        field.name: packet.getfieldval(field.name)
        for field in packet.fields_desc
        if field.name not in computed and not isinstance(field, FieldLenField)
    }
    made = type(packet)(
        **{
            name: list(map(crafted, each)) if isinstance(each, list) else each
            for name, each in values.items()
        }
    )
    return made / crafted(packet.payload) if packet.payload else made


def ethernet(frame: Frame, sender: int, mtu: int = 1500) -> list[bytes]:
    """The Ethernet frames by which the router of node `sender` sends a frame to its first port."""
    head = port_addresses([1])[0] + node_address(sender) + ETHERTYPE.to_bytes(2, "big")
    return [head + payload for payload in codec.fragment(frame, mtu)]


def payload_of(kind: int, body: bytes) -> bytes:
    """An unfragmented frame of node 3 with any body."""
    return struct.pack("!BBBBIQIIHHHH", 1, kind, 0, 64, 3, 17, 2, len(body), 0, 1, len(body), 0) + body


def tlvs_in(body: bytes) -> list[bytes]:
    """The TLVs of a body, found without the codec."""
    parts, at = [], 0
    while at < len(body):
        end = at + 5 + int.from_bytes(body[at + 1 : at + 5], "big")
        parts.append(body[at:end])
        at = end
    return parts


class Trailer(NamedTuple):
    hop_key: int
    hop_counter: int
    tags: tuple[bytes, ...]


def read_trailer(payload: bytes) -> Trailer | None:
    """The trailer of a payload; None: there is none, or it is cut short.

    Args:
        payload: header, body, perhaps a signature, trailer, and perhaps padding.

    Raises:
        DecodeError: the header breaks a rule.
    """
    header = decode_header(payload)
    at = length_with_signature(header)
    if not header.flags & Flags.TAGGED or len(payload) < at + HEAD.size:
        return None
    key, counter, count = HEAD.unpack_from(payload, at)
    at += HEAD.size
    if len(payload) < at + TAG_BYTES * count:
        return None
    tags = [payload[at + TAG_BYTES * i : at + TAG_BYTES * (i + 1)] for i in range(count)]
    return Trailer(key, counter, tuple(tags))
