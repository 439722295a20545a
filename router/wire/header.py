"""The header of every CBCB frame, Ethernet addresses, layouts of the format's tables, and their error.

Layout: `router.wire.format.HEADER`, in network byte order; every fragment repeats the header. Nothing in this
module reads a body, so a reader of captures can use the module alone.

A router's source address carries its node identifier: ``02:cb:NN:NN:NN:NN`` (locally administered
unicast). The destination of a router's frame is a multicast address that carries the set of output
ports as a bitmap: ``03:PP:BB:BB:BB:BB``, page ``PP`` and 32 port bits; port ``p`` is bit
``(p - 1) % 32`` (least significant bit first) of page ``(p - 1) // 32``. Ports on several pages take
one frame per page. Kin: BIER (RFC 8279) and LIPSIN.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import accumulate, takewhile
from typing import NamedTuple

from router.wire.format import (
    FRAMES,
    HEADER as FIELDS,
    MAX_BODY_LENGTH,
    NAMES,
    SIGNATURE_BYTES,
    TLVS,
    VERSION,
    DecodeReason,
    Field,
    Flags,
    FrameFormat,
    FrameType,
    Layout,
    Names,
    Record,
    Tlv,
    TlvFormat,
)

ETHERTYPE = 0x88B5
ETHERTYPE_BYTES = ETHERTYPE.to_bytes(2, "big")
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
#: The Ethernet header of the controller's frames.
CONTROLLER_HEADER = ROUTER_DESTINATION + CONTROLLER_SOURCE + ETHERTYPE_BYTES
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


#: Numbers: the character of `struct`, and the bytes.
STRUCT_CODES = {Layout.U8: "B", Layout.U16: "H", Layout.U32: "I", Layout.U64: "Q"}
SIZES = {Layout.U8: 1, Layout.U16: 2, Layout.U32: 4, Layout.U64: 8}
FRAME_FORMATS: dict[FrameType, FrameFormat] = {row.type: row for row in FRAMES}
TLV_FORMATS: dict[Tlv, TlvFormat] = {row.type: row for row in TLVS}


def struct_of(fields: Iterable[Field]) -> struct.Struct:
    """The struct of the numbers with which `fields` begin; it ends before the first other field."""
    numbers = takewhile(STRUCT_CODES.__contains__, (field.layout for field in fields))
    return struct.Struct("!" + "".join(STRUCT_CODES[layout] for layout in numbers))


def masks_of(record: Record) -> dict[str, int]:
    """Field name -> mask, for the fields of a record of which all are bits of one u16."""
    masks, free = {}, 16
    for field in record.fields:
        free -= field.bits
        masks[field.name] = ((1 << field.bits) - 1) << free
    return masks


_BEGINS = accumulate((SIZES[field.layout] for field in FIELDS), initial=0)
#: Field name -> offset of the field.
HEADER_OFFSETS = {field.name: at for field, at in zip(FIELDS, _BEGINS, strict=False)}
HEADER = struct_of(FIELDS)
HEADER_LENGTH = HEADER.size
#: Names of the frame types by number, for counters and displays.
TYPE_NAMES = NAMES[Names.FRAME_TYPES]
#: Type under which a frame is counted whose header breaks a rule.
UNDECODABLE = "undecodable"
_SIGNED = int(Flags.SIGNED)
_TYPES: dict[int, FrameType] = {int(type_): type_ for type_ in FrameType}
#: The numbers of the frame types, for messages.
EXPECTED_TYPES = ", ".join(map(str, _TYPES))


class DecodeError(ValueError):
    """Bytes that are not a CBCB frame of this version.

    Attributes:
        reason: the rule that was broken.
    """

    def __init__(self, reason: DecodeReason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason = reason


class Header(NamedTuple):
    """The header fields of one frame, without the version and the reserved field, which are constant.

    `total_length` counts the bytes of the whole body, `payload_length` those in this frame.
    """

    type: FrameType
    flags: int
    hop_limit: int
    issuer: int
    seq: int
    epoch: int
    total_length: int
    fragment_index: int
    fragment_count: int
    payload_length: int


def decode_header(payload: bytes) -> Header:
    """Read and check the header of an Ethernet payload.

    Bytes after the header's `payload_length` are Ethernet padding and are ignored.

    Raises:
        DecodeError: the header breaks a rule, or the payload is shorter than it says.
    """
    length = len(payload)
    if length < HEADER_LENGTH:
        raise DecodeError(DecodeReason.TRUNCATED, f"{length} bytes; a header has {HEADER_LENGTH}")
    (version, number, flags, hop_limit, issuer, seq, epoch, total, index, count, here, reserved) = (
        HEADER.unpack_from(payload)
    )
    if version != VERSION:
        raise DecodeError(DecodeReason.BAD_VERSION, f"version {version}; expected {VERSION}")
    type_ = _TYPES.get(number)
    if type_ is None:
        raise DecodeError(DecodeReason.BAD_TYPE, f"frame type {number}; expected {EXPECTED_TYPES}")
    if reserved:
        raise DecodeError(DecodeReason.BAD_RESERVED, f"reserved field is {reserved}; expected 0")
    if total > MAX_BODY_LENGTH:
        raise DecodeError(DecodeReason.TOO_LARGE, f"body of {total} bytes; at most {MAX_BODY_LENGTH}")
    if count == 1:
        if index:
            raise DecodeError(DecodeReason.BAD_FRAGMENT, f"fragment {index} of 1; indices start at 0")
        if here != total:
            raise DecodeError(
                DecodeReason.BAD_LENGTH, f"payload_length {here} of an unfragmented body of {total} bytes"
            )
    else:
        _check_fragment(index, count, here, total)
    if length - HEADER_LENGTH < here:
        raise DecodeError(
            DecodeReason.TRUNCATED, f"payload_length {here}, but {length - HEADER_LENGTH} bytes follow"
        )
    return Header(type_, flags, hop_limit, issuer, seq, epoch, total, index, count, here)


def length_with_signature(header: Header) -> int:
    """The bytes of the header, the body in this frame, and the signature that the header may announce."""
    length = HEADER_LENGTH + header.payload_length
    return length + SIGNATURE_BYTES if header.flags & _SIGNED else length


def signature_of(header: Header, payload: bytes) -> bytes:
    """The signature behind the body in an Ethernet payload; empty: there is none, or it is cut short."""
    if not header.flags & _SIGNED:
        return b""
    signature = payload[HEADER_LENGTH + header.payload_length : length_with_signature(header)]
    return signature if len(signature) == SIGNATURE_BYTES else b""


def _check_fragment(index: int, count: int, here: int, total: int) -> None:
    """The rules for one fragment of several: each carries at least one byte and leaves one to each other."""
    if index >= count:
        raise DecodeError(DecodeReason.BAD_FRAGMENT, f"fragment {index} of {count}; indices start at 0")
    if not 1 <= here <= total - (count - 1):
        raise DecodeError(
            DecodeReason.BAD_LENGTH,
            f"payload_length {here} in fragment {index} of {count}, {total} bytes in all",
        )
