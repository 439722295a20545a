"""The wire format as Scapy layers: to craft, inspect and check frames, never to forward them.

`Ether() / CBCB() / MSG(...)` builds; `Ether(data)` dissects. Lengths left at None are computed. The
bytes equal those of `router.wire.codec` (shared vectors and property tests). One body layer per frame
type holds the list of TLVs; fragments of a larger frame carry `Fragment` instead, since a TLV may
begin in one fragment and end in the next.

Two names differ from `router.wire.frames` because Scapy packets use them for something else:
`attribute_name` for name and `parent_interface` for parent.
"""

from __future__ import annotations

import struct
from typing import Any

from scapy.fields import (
    BitField,
    ByteEnumField,
    ByteField,
    Field,
    FieldLenField,
    FlagsField,
    IntField,
    LongField,
    PacketListField,
    ShortField,
    StrLenField,
)
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw, bind_layers

from router.predicates.model import (
    SYMBOLS,
    Constraint,
    Message,
    Predicate,
    Type,
    Value,
    type_of,
)
from router.wire import codec
from router.wire.addresses import ETHERTYPE
from router.wire.frames import (
    VERSION,
    Ack,
    BroadcastTable,
    Commit,
    Frame,
    FrameType,
    Hello,
    SenderRequest,
)
from router.wire.tlv import TLV_HEADER, TLV_HEADER_LENGTH, Tlv

_TYPE_NAMES = {int(kind): kind.name.lower() for kind in Type}
_OPERATOR_NAMES = {int(operator): symbol for operator, symbol in SYMBOLS.items()}
_TLV_NAMES = {int(kind): kind.name for kind in Tlv}
_FORMATS = {
    Type.INTEGER: struct.Struct("!q"),
    Type.DOUBLE: struct.Struct("!d"),
    Type.BOOLEAN: struct.Struct("!?"),
}


class CBCB(Packet):
    """The fixed header, 32 bytes (docs/wire-format.md)."""

    name = "CBCB"
    fields_desc = [  # noqa: RUF012 - Scapy's way to declare a layer; it copies the list
        ByteField("version", VERSION),
        ByteEnumField("type", int(FrameType.MSG), codec.TYPE_NAMES),
        FlagsField("flags", 0, 8, ["PARTIAL", "b1", "b2", "b3", "b4", "b5", "b6", "b7"]),
        ByteField("hop_limit", 64),
        IntField("issuer", 0),
        LongField("seq", 0),
        IntField("epoch", 0),
        IntField("total_length", None),
        ShortField("fragment_index", 0),
        ShortField("fragment_count", 1),
        ShortField("payload_length", None),
        ShortField("reserved", 0),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill in the lengths that were left open."""
        if self.total_length is None:
            pkt = pkt[:20] + struct.pack("!I", len(pay)) + pkt[24:]
        if self.payload_length is None:
            pkt = pkt[:28] + struct.pack("!H", len(pay)) + pkt[30:]
        return pkt + pay

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """What follows `payload_length` is Ethernet padding."""
        return s[: self.payload_length], s[self.payload_length :]

    def guess_payload_class(self, payload: bytes) -> Any:
        """The body layer by type; `Fragment` for a part of a body."""
        if self.fragment_count != 1:
            return Fragment
        return super().guess_payload_class(payload)

    def mysummary(self) -> str:
        """One line: type, issuer and sequence number."""
        return str(self.sprintf("%CBCB.type% %CBCB.issuer%/%CBCB.seq%"))


class _Part(Packet):
    """A piece inside a list: bytes beyond its fields are shown as its own `Raw` payload."""

    def mysummary(self) -> str:
        return str(self.name)


class _TlvPacket(_Part):
    """A TLV; computes its length."""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill in the length if it was left open."""
        pkt += pay
        if self.tlv_length is None:
            pkt = pkt[:1] + struct.pack("!I", len(pkt) - TLV_HEADER_LENGTH) + pkt[TLV_HEADER_LENGTH:]
        return pkt


def _tlv_fields(kind: Tlv) -> list[Any]:
    return [ByteEnumField("tlv_type", int(kind), _TLV_NAMES), IntField("tlv_length", None)]


class _ValueField(Field):
    """A typed value; its Python form follows the packet's `value_type`.

    Bytes that are no value of that type are kept as bytes, so a malformed frame can be shown.
    """

    __slots__ = ("size",)

    def __init__(self, name: str, size: Any) -> None:
        super().__init__(name, b"", "s")
        self.size = size

    def i2repr(self, pkt: Any, x: Any) -> str:
        del pkt
        return repr(x)

    def addfield(self, pkt: Any, s: bytes, val: Value | bytes | None) -> bytes:
        # By hand one writes 300 for a double.
        if pkt.value_type == Type.DOUBLE and type(val) is int:
            val = float(val)
        return s + _value_bytes(val)

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, Value | bytes]:
        size = max(0, self.size(pkt))
        return s[size:], _read_value(pkt.value_type, s[:size])


def _value_bytes(value: Value | bytes | None) -> bytes:
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    kind = type_of(value)
    if kind is Type.STRING:
        return str(value).encode()
    return _FORMATS[kind].pack(value)


def _read_value(kind: int, data: bytes) -> Value | bytes:
    try:
        if kind == Type.STRING:
            return data.decode()
        if kind in _FORMATS and not (kind == Type.BOOLEAN and data not in (b"\0", b"\1")):
            value: Value = _FORMATS[Type(kind)].unpack(data)[0]
            return value
    except (UnicodeDecodeError, struct.error):
        pass
    return data


class Attribute(_TlvPacket):
    """One attribute of a message."""

    name = "ATTRIBUTE"
    fields_desc = [  # noqa: RUF012
        *_tlv_fields(Tlv.ATTRIBUTE),
        FieldLenField("name_length", None, length_of="attribute_name", fmt="B"),
        StrLenField("attribute_name", b"", length_from=lambda part: part.name_length),
        ByteEnumField("value_type", int(Type.STRING), _TYPE_NAMES),
        _ValueField("value", lambda part: part.tlv_length - part.name_length - 2),
    ]


class ConstraintPart(_Part):
    """One constraint of a filter."""

    name = "CONSTRAINT"
    fields_desc = [  # noqa: RUF012
        FieldLenField("name_length", None, length_of="attribute_name", fmt="B"),
        StrLenField("attribute_name", b"", length_from=lambda part: part.name_length),
        ByteEnumField("value_type", int(Type.STRING), _TYPE_NAMES),
        ByteEnumField("operator", 1, _OPERATOR_NAMES),
        ShortField("value_length", None),
        _ValueField("value", lambda part: part.value_length),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill in the value's length if it was left open."""
        if self.value_length is None:
            at = 3 + pkt[0]
            pkt = pkt[:at] + struct.pack("!H", len(pkt) - at - 2) + pkt[at + 2 :]
        return pkt + pay

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """The next constraint follows."""
        return b"", s


class FilterTlv(_TlvPacket):
    """One filter of a predicate: its constraints, to the end of the TLV."""

    name = "FILTER"
    fields_desc = [  # noqa: RUF012
        *_tlv_fields(Tlv.FILTER),
        PacketListField(
            "constraints",
            [],
            ConstraintPart,
            length_from=lambda part: part.tlv_length,
            # Without it Scapy stops at a hundred, and shows the frame as raw bytes.
            max_count=codec.MAX_BODY_LENGTH,
        ),
    ]


class Timeout(_TlvPacket):
    """How long the issuer of an SR waits."""

    name = "TIMEOUT"
    fields_desc = [*_tlv_fields(Tlv.TIMEOUT), IntField("timeout_us", 0)]  # noqa: RUF012


class Incarnation(_TlvPacket):
    """Greater at each start of this router."""

    name = "INCARNATION"
    fields_desc = [*_tlv_fields(Tlv.INCARNATION), IntField("incarnation", 0)]  # noqa: RUF012


class Neighbour(_TlvPacket):
    """Which node is behind an interface."""

    name = "NEIGHBOUR"
    fields_desc = [  # noqa: RUF012
        *_tlv_fields(Tlv.NEIGHBOUR),
        ShortField("interface", 0),
        IntField("node", 0),
    ]


class ChildPart(_Part):
    """A child in a broadcast tree: its flags and its interface."""

    name = "CHILD"
    fields_desc = [  # noqa: RUF012
        BitField("reusable", 0, 1),
        BitField("off_tree", 0, 1),
        BitField("interface", 0, 14),
    ]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """The next child follows."""
        return b"", s


class TreeEntryTlv(_TlvPacket):
    """A router's part in the broadcast tree of one source."""

    name = "TREE_ENTRY"
    fields_desc = [  # noqa: RUF012
        *_tlv_fields(Tlv.TREE_ENTRY),
        IntField("source", 0),
        ShortField("parent_interface", 0),
        IntField("downstream", 0),
        FieldLenField("child_count", None, count_of="children", fmt="H"),
        PacketListField(
            "children", [], ChildPart, count_from=lambda part: part.child_count, max_count=65_535
        ),
    ]


class OldestEpoch(_TlvPacket):
    """The oldest epoch that is still forwarded."""

    name = "OLDEST_EPOCH"
    fields_desc = [*_tlv_fields(Tlv.OLDEST_EPOCH), IntField("oldest_epoch", 0)]  # noqa: RUF012


class Acknowledged(_TlvPacket):
    """The type of the frame that is acknowledged."""

    name = "ACKNOWLEDGED"
    fields_desc = [  # noqa: RUF012
        *_tlv_fields(Tlv.ACKNOWLEDGED),
        ByteEnumField("acknowledged", int(FrameType.TABLE), codec.TYPE_NAMES),
    ]


class UnknownTlv(_TlvPacket):
    """A TLV of a type that this version does not define."""

    name = "UNKNOWN"
    fields_desc = [  # noqa: RUF012
        ByteField("tlv_type", 255),
        IntField("tlv_length", None),
        StrLenField("data", b"", length_from=lambda part: part.tlv_length),
    ]


_TLV_CLASSES: dict[int, Any] = {
    Tlv.ATTRIBUTE: Attribute,
    Tlv.FILTER: FilterTlv,
    Tlv.TIMEOUT: Timeout,
    Tlv.INCARNATION: Incarnation,
    Tlv.NEIGHBOUR: Neighbour,
    Tlv.TREE_ENTRY: TreeEntryTlv,
    Tlv.OLDEST_EPOCH: OldestEpoch,
    Tlv.ACKNOWLEDGED: Acknowledged,
}


class _TlvListField(PacketListField):
    """TLVs to the end of the body, each cut by its own length so that a wrong inner length stays inside.

    Bytes that are not a whole TLV become a `Raw` element at the end.
    """

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, list[Any]]:
        del pkt
        parts: list[Any] = []
        while s:
            size = TLV_HEADER_LENGTH
            kind, length = TLV_HEADER.unpack_from(s) if len(s) >= size else (0, len(s))
            if size + length > len(s):
                parts.append(Raw(s))
                break
            parts.append(_TLV_CLASSES.get(kind, UnknownTlv)(s[: size + length]))
            s = s[size + length :]
        return b"", parts


class _Body(Packet):
    """A whole body: a list of TLVs."""

    fields_desc = [_TlvListField("tlvs", [], Packet)]  # noqa: RUF012


class MSG(_Body):
    """Message (protocol paper, figure 2): ATTRIBUTE TLVs."""

    name = "MSG"


class RA(_Body):
    """Receiver advertisement (figure 3): FILTER TLVs."""

    name = "RA"


class SR(_Body):
    """Sender request (figure 6): one TIMEOUT TLV."""

    name = "SR"


class UR(_Body):
    """Update reply (figure 7): FILTER TLVs."""

    name = "UR"


class HELLO(_Body):
    """Router to controller: one INCARNATION TLV."""

    name = "HELLO"


class TABLE(_Body):
    """Controller to router: NEIGHBOUR and TREE_ENTRY TLVs."""

    name = "TABLE"


class COMMIT(_Body):
    """Controller to router: one OLDEST_EPOCH TLV."""

    name = "COMMIT"


class ACK(_Body):
    """Router to controller: one ACKNOWLEDGED TLV."""

    name = "ACK"


class Fragment(Raw):
    """A part of a body (field `load`)."""

    name = "Fragment"


BODIES: dict[FrameType, Any] = {
    FrameType.MSG: MSG,
    FrameType.RA: RA,
    FrameType.SR: SR,
    FrameType.UR: UR,
    FrameType.HELLO: HELLO,
    FrameType.TABLE: TABLE,
    FrameType.COMMIT: COMMIT,
    FrameType.ACK: ACK,
}

bind_layers(Ether, CBCB, type=ETHERTYPE)
for _kind, _layer in BODIES.items():
    bind_layers(CBCB, _layer, type=int(_kind))


def from_frame(frame: Frame) -> Any:
    """A frame as an (unfragmented) `CBCB` packet."""
    header = CBCB(
        type=int(frame.type),
        flags=int(frame.flags),
        hop_limit=frame.hop_limit,
        issuer=frame.issuer,
        seq=frame.seq,
        epoch=frame.epoch,
    )
    return header / BODIES[frame.type](tlvs=_tlvs_of(frame))


def to_frame(packet: Any) -> Frame:
    """The frame that a packet with a `CBCB` layer stands for, checked as one off the wire would be.

    Raises:
        codec.DecodeError: the packet, as built, breaks a rule of the format, or is a fragment.
    """
    return codec.decode(bytes(packet[CBCB]))


def _tlvs_of(frame: Frame) -> list[Any]:
    body = frame.body
    if isinstance(body, Message):
        return [
            Attribute(attribute_name=name.encode(), value_type=int(type_of(value)), value=value)
            for name, value in body.items()
        ]
    if isinstance(body, Predicate):
        return [FilterTlv(constraints=[_constraint_part(one) for one in each]) for each in body]
    if isinstance(body, SenderRequest):
        return [Timeout(timeout_us=body.timeout_us)]
    if isinstance(body, Hello):
        return [Incarnation(incarnation=body.incarnation)]
    if isinstance(body, BroadcastTable):
        neighbours = [Neighbour(interface=interface, node=node) for interface, node in body.neighbours]
        return neighbours + [
            TreeEntryTlv(
                source=entry.source,
                parent_interface=entry.parent,
                downstream=entry.downstream,
                children=[
                    ChildPart(
                        reusable=int(child in entry.reusable),
                        off_tree=int(child in entry.off_tree),
                        interface=child,
                    )
                    for child in entry.children
                ],
            )
            for entry in body.entries
        ]
    if isinstance(body, Commit):
        return [OldestEpoch(oldest_epoch=body.oldest_epoch)]
    assert isinstance(body, Ack)
    return [Acknowledged(acknowledged=int(body.acknowledged))]


def _constraint_part(constraint: Constraint) -> Any:
    return ConstraintPart(
        attribute_name=constraint.name.encode(),
        value_type=int(constraint.type),
        operator=int(constraint.operator),
        value=constraint.value,
    )
