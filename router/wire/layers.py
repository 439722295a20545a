"""The wire format as Scapy layers: to craft, inspect and check frames, never to forward them.

`Ether() / CBCB() / MSG(...)` builds; `Ether(data)` dissects. Lengths left at None are computed. The
bytes equal those of `router.wire.codec` (shared vectors and property tests).

The layers are made from the tables of `router.wire.format`. One body layer per frame type (`MSG`, `RA`, ...)
holds the list of TLVs; fragments of a larger frame carry `Fragment` instead, since a TLV may begin in one
fragment and end in the next. The layers of TLVs and of their parts have the names of the format in CamelCase:
`layers.TreeEntry`, `layers.Constraint`.
"""

from __future__ import annotations

import struct
from types import new_class
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
    StrFixedLenField,
    StrLenField,
)
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Padding, Raw, bind_layers

from router.predicates.model import SYMBOLS, Type, Value, type_of
from router.wire import format
from router.wire.addresses import ETHERTYPE
from router.wire.authentication import HEAD as TRAILER_HEAD
from router.wire.authentication import trailer_length
from router.wire.format import (
    FRAMES,
    MAX_BODY_LENGTH,
    SIGNATURE,
    SIGNATURE_BYTES,
    TAG,
    TAG_BYTES,
    TRAILER,
    VERSION,
    Flags,
    FrameType,
    Layout,
    Names,
    Tlv,
)
from router.wire.header import HEADER_OFFSETS, SIZES, STRUCT_CODES, TLV_FORMATS, TYPE_NAMES
from router.wire.tlv import TLV_HEADER, TLV_HEADER_LENGTH

_NAMES: dict[Names, dict[int, str]] = {
    Names.FRAME_TYPES: TYPE_NAMES,
    Names.VALUE_TYPES: {int(type_): type_.name.lower() for type_ in Type},
    Names.OPERATORS: {int(operator): symbol for operator, symbol in SYMBOLS.items()},
}
_FLAG_NAMES = [next((flag.name for flag in format.FLAGS if flag == 1 << bit), f"b{bit}") for bit in range(8)]
_TLV_NAMES = {int(tlv): tlv.name for tlv in Tlv}
_VALUE_STRUCTS = {
    Type.INTEGER: struct.Struct("!q"),
    Type.DOUBLE: struct.Struct("!d"),
    Type.BOOLEAN: struct.Struct("!?"),
}
_NUMBERS = {Layout.U8: ByteField, Layout.U16: ShortField, Layout.U32: IntField, Layout.U64: LongField}
#: Header fields that are not 0 in a packet that does not say otherwise; None: computed.
_HEADER_DEFAULTS = {
    "version": VERSION,
    "type": int(FrameType.MSG),
    "hop_limit": 64,
    "total_length": None,
    "fragment_count": 1,
    "payload_length": None,
}


def _number(field: format.Field, default: int | None) -> Any:
    """The Scapy field of a number."""
    if field.names is Names.FLAGS:
        return FlagsField(field.name, default, 8, _FLAG_NAMES)
    if field.names is not None:
        return ByteEnumField(field.name, default, _NAMES[field.names])
    return _NUMBERS[field.layout](field.name, default)


class Trailer(Packet):
    """The trailer of a tagged frame, behind the body: no part of the lengths in the header, as padding."""

    name = "Trailer"
    fields_desc = [  # noqa: RUF012
        *(_number(field, None if field.name == "tag_count" else 0) for field in TRAILER),
        StrLenField(TAG.name, b"", length_from=lambda part: TAG_BYTES * part.tag_count),
    ]

    def self_build(self) -> bytes:
        """Nothing: the bytes are those of `build_padding`."""
        return b""

    def build_padding(self) -> bytes:
        """The trailer, and the padding behind it."""
        tags = bytes(self.hop_tag)
        count = len(tags) // TAG_BYTES if self.tag_count is None else self.tag_count
        head = TRAILER_HEAD.pack(self.hop_key, self.hop_counter, count)
        return head + tags + bytes(self.payload.build_padding())

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """The bytes behind the tags are Ethernet padding."""
        return b"", s


class Signature(Packet):
    """The signature of a signed frame, behind the body: no part of the lengths in the header, as padding."""

    name = "Signature"
    fields_desc = [StrFixedLenField(SIGNATURE.name, bytes(SIGNATURE_BYTES), SIGNATURE_BYTES)]  # noqa: RUF012

    def self_build(self) -> bytes:
        """Nothing: the bytes are those of `build_padding`."""
        return b""

    def build_padding(self) -> bytes:
        """The signature, and what is behind it."""
        return bytes(self.signature) + bytes(self.payload.build_padding())


def _behind_body(data: bytes, flags: int) -> Packet:
    """The layers of the bytes behind a body; behind a signature that is cut short there is no trailer."""
    if flags & int(Flags.SIGNED):
        if len(data) < SIGNATURE_BYTES:
            return Padding(data)
        rest = data[SIGNATURE_BYTES:]
        made = Signature(signature=data[:SIGNATURE_BYTES])
        return made / _behind_body(rest, flags & ~int(Flags.SIGNED)) if rest else made
    size = TRAILER_HEAD.size
    if flags & int(Flags.TAGGED) and len(data) >= size and len(data) >= trailer_length(data[size - 1]):
        return Trailer(data)
    return Padding(data)


class CBCB(Packet):
    """The fixed header."""

    name = "CBCB"
    fields_desc = [_number(field, _HEADER_DEFAULTS.get(field.name, 0)) for field in format.HEADER]  # noqa: RUF012 - Scapy's way to declare a layer; it copies the list

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fills in the lengths that were left open."""
        if self.total_length is None:
            pkt = _overwritten(pkt, HEADER_OFFSETS["total_length"], struct.pack("!I", len(pay)))
        if self.payload_length is None:
            pkt = _overwritten(pkt, HEADER_OFFSETS["payload_length"], struct.pack("!H", len(pay)))
        return pkt + pay

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Bytes after `payload_length` are Ethernet padding."""
        return s[: self.payload_length], s[self.payload_length :]

    def dissect(self, s: bytes) -> None:
        """Reads signature and trailer, which `extract_padding` leaves in the padding."""
        super().dissect(s)
        padding = self.getlayer(Padding)
        if padding is not None and self.flags & int(Flags.SIGNED | Flags.TAGGED):
            before = padding.underlayer
            before.remove_payload()
            before.add_payload(_behind_body(padding.load, int(self.flags)))

    def guess_payload_class(self, payload: bytes) -> Any:
        """The body layer by type; `Fragment` for a part of a body."""
        if self.fragment_count != 1:
            return Fragment
        return super().guess_payload_class(payload)

    def mysummary(self) -> str:
        """One line: type, issuer and sequence number."""
        return str(self.sprintf("%CBCB.type% %CBCB.issuer%/%CBCB.seq%"))


def _overwritten(data: bytes, at: int, part: bytes) -> bytes:
    return data[:at] + part + data[at + len(part) :]


class _Part(Packet):
    """A piece inside a list: bytes beyond its fields are shown as its own `Raw` payload."""

    def mysummary(self) -> str:
        return str(self.name)


class _TlvPacket(_Part):
    """A TLV; computes its length."""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fills in the length if it was left open."""
        pkt += pay
        if self.tlv_length is None:
            pkt = _overwritten(pkt, 1, struct.pack("!I", len(pkt) - TLV_HEADER_LENGTH))
        return pkt


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
        # Whoever builds a packet by hand writes 300 for a double.
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
    type_ = type_of(value)
    if type_ is Type.STRING:
        return str(value).encode()
    return _VALUE_STRUCTS[type_].pack(value)


def _read_value(type_: int, data: bytes) -> Value | bytes:
    try:
        if type_ == Type.STRING:
            return data.decode()
        if type_ in _VALUE_STRUCTS and not (type_ == Type.BOOLEAN and data not in (b"\0", b"\1")):
            value: Value = _VALUE_STRUCTS[Type(type_)].unpack(data)[0]
            return value
    except (UnicodeDecodeError, struct.error):
        pass
    return data


class _RecordPacket(_Part):
    """A record of a list; computes the length of its value."""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fills in the length of the value if it was left open."""
        if getattr(self, "value_length", 0) is None:
            at = 3 + pkt[0]
            pkt = _overwritten(pkt, at, struct.pack("!H", len(pkt) - at - 2))
        return pkt + pay

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """The bytes behind a record are the next record."""
        return b"", s


def _field(field: format.Field, before: tuple[format.Field, ...]) -> Any:
    """The Scapy field of a field of a TLV or a record, which follows the fields `before`."""
    length = next((other.name for other in before if other.length_of == field.name), None)
    if field.layout is Layout.BITS:
        return BitField(field.name, 0, field.bits)
    if field.layout is Layout.TEXT:
        return StrLenField(field.name, b"", length_from=lambda part: part.getfieldval(length))
    if field.layout is Layout.VALUE:
        if length is not None:
            return _ValueField(field.name, lambda part: part.getfieldval(length))
        # To the end of the TLV, behind the name, its length and the type.
        return _ValueField(field.name, lambda part: part.tlv_length - part.name_length - 2)
    if field.layout is Layout.OCTETS:
        leading = sum(SIZES[other.layout] for other in before)
        return StrLenField(field.name, b"", length_from=lambda part: max(0, part.tlv_length - leading))
    if field.layout is Layout.RECORDS:
        count = next((other.name for other in before if other.count_of == field.name), None)
        ends = (
            {"length_from": lambda part: part.tlv_length}
            if count is None
            else {"count_from": lambda part: part.getfieldval(count)}
        )
        # Without `max_count` Scapy stops at a hundred, and shows the frame as raw bytes.
        return PacketListField(field.name, [], RECORDS[field.name], max_count=MAX_BODY_LENGTH, **ends)
    if field.count_of is not None:
        return FieldLenField(field.name, None, count_of=field.count_of, fmt=STRUCT_CODES[field.layout])
    if field.length_of == "value":
        return _number(field, None)
    if field.length_of is not None:
        return FieldLenField(field.name, None, length_of=field.length_of, fmt=STRUCT_CODES[field.layout])
    return _number(field, _DEFAULTS.get(field.name, 0))


#: Fields of TLVs and records that are not 0 in a packet that does not say otherwise.
_DEFAULTS = {
    "value_type": int(Type.STRING),
    "operator": 1,
    "acknowledged": int(FrameType.TABLE),
}


def _layer(base: type, title: str, name: str, sentence: str, fields: list[Any]) -> Any:
    """A layer, also an attribute of this module under `title`."""
    members = {"name": name, "fields_desc": fields, "__doc__": sentence, "__module__": __name__}
    layer = new_class(title, (base,), {}, lambda namespace: namespace.update(members))
    globals()[title] = layer
    return layer


def _fields(fields: tuple[format.Field, ...]) -> list[Any]:
    return [_field(field, fields[:index]) for index, field in enumerate(fields)]


def _title(name: str) -> str:
    return "".join(map(str.capitalize, name.split("_")))


def __getattr__(name: str) -> Any:
    """For type checkers: the layers are made from the tables."""
    raise AttributeError(f"module {__name__} has no attribute {name!r}")


#: Name of a field that holds records -> the layer of a record.
RECORDS: dict[str, Any] = {
    field.name: _layer(
        _RecordPacket,
        _title(field.records.name),
        field.records.name,
        field.records.sentence,
        _fields(field.records.fields),
    )
    for row in TLV_FORMATS.values()
    for field in row.fields
    if field.records is not None
}

#: TLV type -> its layer.
TLV_LAYERS: dict[int, Any] = {
    int(tlv): _layer(
        _TlvPacket,
        _title(tlv.name),
        tlv.name,
        row.sentence,
        [ByteEnumField("tlv_type", int(tlv), _TLV_NAMES), IntField("tlv_length", None), *_fields(row.fields)],
    )
    for tlv, row in TLV_FORMATS.items()
}


class UnknownTlv(_TlvPacket):
    """A TLV of a type that this version does not define."""

    name = "UNKNOWN"
    fields_desc = [  # noqa: RUF012
        ByteField("tlv_type", 255),
        IntField("tlv_length", None),
        StrLenField("data", b"", length_from=lambda part: part.tlv_length),
    ]


class _TlvListField(PacketListField):
    """TLVs to the end of the body, each cut by its own length so that a wrong inner length stays inside.

    Bytes that are not a whole TLV become a `Raw` element at the end.
    """

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, list[Any]]:
        del pkt
        parts: list[Any] = []
        while s:
            size = TLV_HEADER_LENGTH
            number, length = TLV_HEADER.unpack_from(s) if len(s) >= size else (0, len(s))
            if size + length > len(s):
                parts.append(Raw(s))
                break
            parts.append(TLV_LAYERS.get(number, UnknownTlv)(s[: size + length]))
            s = s[size + length :]
        return b"", parts


class _Body(Packet):
    """A whole body: a list of TLVs."""

    fields_desc = [_TlvListField("tlvs", [], Packet)]  # noqa: RUF012


class Fragment(Raw):
    """A part of a body (field `load`)."""

    name = "Fragment"


#: Frame type -> the layer of its body.
BODIES: dict[FrameType, Any] = {
    row.type: _layer(_Body, row.type.name, row.type.name, row.sentence, _Body.fields_desc) for row in FRAMES
}

bind_layers(Ether, CBCB, type=ETHERTYPE)
for _type, _body in BODIES.items():
    bind_layers(CBCB, _body, type=int(_type))
