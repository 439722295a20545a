"""The wire format as Scapy layers: to craft, inspect and check frames, never to forward them.

`Ether() / CBCB() / MSG(...)` builds; `Ether(data)` dissects. Lengths left at None are computed. The
bytes equal those of `router.wire.codec` (shared vectors and property tests).

The layers are made from the tables of `router.wire.format`. One body layer per frame type (`MSG`, `RA`, ...)
holds the list of TLVs; fragments of a larger frame carry `Fragment` instead, since a TLV may begin in one
fragment and end in the next. The layers of TLVs and of their parts have the names of the format in CamelCase:
`layers.TreeClass`, `layers.Constraint`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from scapy.fields import (
    BitField,
    ByteEnumField,
    ByteField,
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

from router.predicates import Operator, Type, Value
from router.wire import format
from router.wire.authentication import HEAD as TRAILER_HEAD, trailer_length
from router.wire.format import (
    FRAMES,
    MAX_BODY_LENGTH,
    SIGNATURE_BYTES,
    TAG_BYTES,
    TLVS,
    Flags,
    FrameType,
    Layout,
    Tlv,
)
from router.wire.header import ETHERTYPE, HEADER_OFFSETS, SIZES, STRUCT_CODES, TLV_FORMATS, DecodeError
from router.wire.tlv import TLV_HEADER_LENGTH, decode_value, encode_value, tlvs

_NUMBERS = {Layout.U8: ByteField, Layout.U16: ShortField, Layout.U32: IntField, Layout.U64: LongField}
#: Fields that are not 0 in a packet that does not say otherwise; None: computed.
_DEFAULTS = {
    "version": format.VERSION,
    "type": int(FrameType.MSG),
    "hop_limit": 64,
    "total_length": None,
    "fragment_count": 1,
    "payload_length": None,
    "value_type": int(Type.STRING),
    "operator": int(Operator.EQ),
    "acknowledged": int(FrameType.TABLE),
}


class _ValueField(StrLenField):
    """A typed value; its Python form follows the packet's `value_type`.

    Bytes that are no value of that type are kept as bytes, so a malformed frame can be shown.
    """

    def any2i(self, pkt: Any, x: Any) -> Any:
        del pkt
        return x

    def i2repr(self, pkt: Any, x: Any) -> str:
        del pkt
        return repr(x)

    def i2len(self, pkt: Any, x: Any) -> int:
        return len(self.i2m(pkt, x))

    def i2m(self, pkt: Any, x: Value | bytes | None) -> bytes:
        if x is None or isinstance(x, bytes):
            return x or b""
        # Whoever builds a packet by hand writes 300 for a double.
        return encode_value(float(x) if pkt.value_type == Type.DOUBLE and type(x) is int else x)

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, Value | bytes]:
        size = self.length_from(pkt)
        try:
            value: Value | bytes = decode_value("", pkt.value_type, s, 0, size)
        except DecodeError:
            value = s[:size]
        return s[size:], value


def _number(field: format.Field) -> Any:
    """The Scapy field of a number."""
    default = _DEFAULTS.get(field.name, 0)
    if field.names in format.BITS:
        names = {int(flag): flag.name for flag in format.BITS[field.names]}
        return FlagsField(field.name, default, 8, [names.get(1 << bit, f"b{bit}") for bit in range(8)])
    if field.names is not None:
        return ByteEnumField(field.name, default, format.NAMES[field.names])
    return _NUMBERS[field.layout](field.name, default)


def _field(field: format.Field, before: tuple[format.Field, ...]) -> Any:
    """The Scapy field of a field of a TLV or a record, which follows the fields `before`."""
    name = field.name
    if field.length_of is not None:
        return FieldLenField(name, None, length_of=field.length_of, fmt=STRUCT_CODES[field.layout])
    if field.count_of is not None:
        return FieldLenField(name, None, count_of=field.count_of, fmt=STRUCT_CODES[field.layout])
    if field.layout is Layout.BITS:
        return BitField(name, 0, field.bits)
    if field.layout in _NUMBERS:
        return _number(field)
    ends = {"length_from": _length_from(field, before)}
    if field.layout is Layout.RECORDS:
        counts = [each.name for each in before if each.count_of == name]
        if counts:
            ends = {"count_from": lambda part: part.getfieldval(counts[0])}
        # Without `max_count` Scapy stops at a hundred, and shows the frame as raw bytes.
        return PacketListField(name, [], RECORDS[name], max_count=MAX_BODY_LENGTH, **ends)
    return (_ValueField if field.layout is Layout.VALUE else StrLenField)(name, b"", **ends)


def _length_from(field: format.Field, before: tuple[format.Field, ...]) -> Callable[[Any], int]:
    """The length of a field: that of the field that has it, or the rest of the TLV."""
    lengths = [each.name for each in before if each.length_of]
    for each in before:
        if each.length_of == field.name:
            return lambda part: int(part.getfieldval(each.name))
    leading = sum(SIZES.get(each.layout, 0) for each in before)
    return lambda part: max(0, part.tlv_length - leading - sum(map(part.getfieldval, lengths)))


def _fields(fields: tuple[format.Field, ...]) -> list[Any]:
    return [_field(field, fields[:index]) for index, field in enumerate(fields)]


def _layer(base: type, name: str, title: str, sentence: str, fields: list[Any]) -> Any:
    """A layer, which is also an attribute of this module under `title`."""
    members = {"name": name, "fields_desc": fields, "__doc__": sentence, "__module__": __name__}
    globals()[title] = layer = type(base)(title, (base,), members)
    return layer


def _title(name: str) -> str:
    return "".join(map(str.capitalize, name.split("_")))


def __getattr__(name: str) -> Any:
    """For type checkers: the layers are made from the tables."""
    raise AttributeError(f"module {__name__} has no attribute {name!r}")


def _with_length(data: bytes, at: int, code: str, length: int) -> bytes:
    """The bytes with a length in the place of those at `at`."""
    packed = struct.pack(f"!{code}", length)
    return data[:at] + packed + data[at + len(packed) :]


# --- The header, and the parts behind the body ------------------------------------------------------------


class CBCB(Packet):
    """The fixed header."""

    name = "CBCB"
    fields_desc = [_number(field) for field in format.HEADER]  # noqa: RUF012 - Scapy's way to declare a layer; it copies the list

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fills in the lengths that were left open."""
        for name, code in (("total_length", "I"), ("payload_length", "H")):
            if self.getfieldval(name) is None:
                pkt = _with_length(pkt, HEADER_OFFSETS[name], code, len(pay))
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
        return Fragment if self.fragment_count != 1 else super().guess_payload_class(payload)

    def mysummary(self) -> str:
        """One line: type, issuer and sequence number."""
        return str(self.sprintf("%CBCB.type% %CBCB.issuer%/%CBCB.seq%"))


class _BehindBody(Packet):
    """A part behind the body, which no length in the header counts: it is built as padding is."""

    def self_build(self) -> bytes:
        return b""

    def build_padding(self) -> bytes:
        return bytes(super().self_build() + self.payload.build_padding())

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


class Signature(_BehindBody):
    """The signature of a signed frame."""

    name = "Signature"
    fields_desc = [StrFixedLenField(format.SIGNATURE.name, bytes(SIGNATURE_BYTES), SIGNATURE_BYTES)]  # noqa: RUF012


class Trailer(_BehindBody):
    """The trailer of a tagged frame."""

    name = "Trailer"
    fields_desc = [  # noqa: RUF012
        *map(_number, format.TRAILER[:-1]),
        FieldLenField(
            "tag_count", None, length_of=format.TAG.name, fmt="B", adjust=lambda _, size: size // TAG_BYTES
        ),
        StrLenField(format.TAG.name, b"", length_from=lambda part: TAG_BYTES * part.tag_count),
    ]


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


# --- Bodies -----------------------------------------------------------------------------------------------


class _Part(Packet):
    """A record, or a TLV: bytes beyond its fields are shown as its own `Raw` payload."""

    def mysummary(self) -> str:
        return str(self.name)


class _Record(_Part):
    """A record of a list: the bytes behind it are the next record."""

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


class _Tlv(_Part):
    """A TLV; computes its length."""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        pkt += pay
        return pkt if self.tlv_length is not None else _with_length(pkt, 1, "I", len(pkt) - TLV_HEADER_LENGTH)


#: Name of a field that holds records -> the layer of a record.
RECORDS: dict[str, Any] = {
    field.name: _layer(
        _Record,
        field.records.name,
        _title(field.records.name),
        field.records.sentence,
        _fields(field.records.fields),
    )
    for row in TLVS
    for field in row.fields
    if field.records is not None
}


def _tlv_layer(number: int, name: str, title: str, sentence: str, fields: list[Any]) -> Any:
    names = {int(tlv): tlv.name for tlv in Tlv}
    head = [ByteEnumField("tlv_type", number, names), IntField("tlv_length", None)]
    return _layer(_Tlv, name, title, sentence, head + fields)


#: TLV type -> its layer.
TLV_LAYERS: dict[int, Any] = {
    int(tlv): _tlv_layer(int(tlv), tlv.name, _title(tlv.name), row.sentence, _fields(row.fields))
    for tlv, row in TLV_FORMATS.items()
}
UnknownTlv = _tlv_layer(
    255,
    "UNKNOWN",
    "UnknownTlv",
    "A TLV of a type that this version does not define.",
    [StrLenField("data", b"", length_from=lambda part: part.tlv_length)],
)


class _TlvListField(PacketListField):
    """TLVs to the end of the body, each cut by its own length so that a wrong inner length stays inside.

    Bytes that are not a whole TLV become a `Raw` element at the end.
    """

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, list[Any]]:
        del pkt
        parts: list[Any] = []
        at = 0
        try:
            for number, _, end in tlvs(s):
                parts.append(TLV_LAYERS.get(number, UnknownTlv)(s[at:end]))
                at = end
        except DecodeError:
            parts.append(Raw(s[at:]))
        return b"", parts


class Fragment(Raw):
    """A part of a body (field `load`)."""

    name = "Fragment"


#: Frame type -> the layer of its body.
BODIES: dict[FrameType, Any] = {
    row.type: _layer(Packet, row.type.name, row.type.name, row.sentence, [_TlvListField("tlvs", [], Packet)])
    for row in FRAMES
}

bind_layers(Ether, CBCB, type=ETHERTYPE)
for _type, _body in BODIES.items():
    bind_layers(CBCB, _body, type=int(_type))
